//! What is a run doing? Numbers of each step: a line of `metrics.jsonl`, an event for TensorBoard, a line on the console.
//!
//! A thread of its own writes, so that a step never waits for a disk nor fails because of one.

mod append;
mod chart;
mod metrics;
mod scale;
mod tensorboard;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use append::Appended;
pub use chart::{Axes, Point, Series, chart};
pub use metrics::{Record, read_metrics};

use crate::{Error, Result};

/// What is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice<'a> {
    /// A step's numbers.
    Step(&'a str),
    /// Numbers are being lost, or something was passed over. Said once for each file.
    Trouble(&'a str),
}

/// Shows a notice. Called by the thread that records and by the one that writes.
pub type OnNotice = Arc<dyn Fn(Notice<'_>) + Send + Sync>;

/// Records a run's numbers.
pub struct Monitor {
    orders: Option<mpsc::Sender<Order>>,
    writer: Option<JoinHandle<()>>,
    lost: Arc<AtomicU64>,
    on_notice: OnNotice,
    begun: Instant,
    before: f64,
}

enum Order {
    Write(Box<Record>, f64),
    /// Answered when all before is on the disk.
    Sync(mpsc::Sender<()>),
}

impl Monitor {
    /// Opens the records in a run's folder, to go on after the step of a checkpoint: those of later steps, which will be made
    /// again, are cut off, all at once. Without a checkpoint all of them are.
    ///
    /// # Errors
    /// [`Error::File`] names the line of `metrics.jsonl` that is none; [`Error::Io`].
    pub fn open(folder: &Path, after: Option<u64>, on_notice: OnNotice) -> Result<Self> {
        let before = metrics::cut(&metrics_path(folder), after, &|why| on_notice(Notice::Trouble(why)))?;
        let events = tensorboard::next_file(folder).map_err(Error::io("list", folder))?;
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = Writer {
            metrics: Appended::new(metrics_path(folder)),
            events: Appended::new(events),
            lost: lost.clone(),
            on_notice: on_notice.clone(),
        };
        let (orders, received) = mpsc::channel();
        let spawned = thread::Builder::new().name("monitor".into()).spawn(move || {
            writer.begin(after.map_or(0, |step| step.saturating_add(1)));
            while let Ok(order) = received.recv() {
                writer.obey(order);
            }
        });
        let writer = Some(spawned.map_err(Error::io("start a thread that writes to", folder))?);
        Ok(Self { orders: Some(orders), writer, lost, on_notice, begun: Instant::now(), before })
    }

    /// Records numbers of a step. Names are like `reward/mean`; what is not finite is kept too. Never fails and never waits;
    /// what cannot be written is told and [counted](Self::lost).
    pub fn record(&self, step: u64, values: &[(&str, f64)]) {
        let seconds = self.before + self.begun.elapsed().as_secs_f64();
        let values = values.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let record = Record { step, seconds, values };
        (self.on_notice)(Notice::Step(&record.to_string()));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        self.order(Order::Write(Box::new(record), wall));
    }

    /// Waits until everything recorded so far is written and, as far as the disk allows, durable. Called before a checkpoint
    /// is saved, which stands for all steps before it.
    pub fn sync(&self) {
        let (done, wait) = mpsc::channel();
        self.order(Order::Sync(done));
        // The writer has gone only if it panicked; there is nothing to wait for then.
        let _ = wait.recv();
    }

    /// Lines and events that could not be written so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn order(&self, order: Order) {
        if self.orders.as_ref().is_none_or(|orders| orders.send(order).is_err()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.writer.take().map(JoinHandle::join);
    }
}

struct Writer {
    metrics: Appended,
    events: Appended,
    lost: Arc<AtomicU64>,
    on_notice: OnNotice,
}

impl Writer {
    fn begin(&mut self, step: u64) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let begun = self.events.append(&tensorboard::begin(step, wall));
        self.told(begun);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Write(record, wall) => {
                let line = self.metrics.append(&record.to_line());
                self.told(line);
                let event = self.events.append(&tensorboard::event(&record, wall));
                self.told(event);
            }
            Order::Sync(done) => {
                for synced in [self.metrics.sync(), self.events.sync()] {
                    self.told(synced);
                }
                let _ = done.send(());
            }
        }
    }

    fn told(&self, written: append::Written) {
        if let Err(failure) = written {
            self.lost.fetch_add(u64::from(failure.lost), Ordering::Relaxed);
            if let Some(why) = failure.first {
                (self.on_notice)(Notice::Trouble(&why));
            }
        }
    }
}

fn metrics_path(folder: &Path) -> PathBuf {
    folder.join("metrics.jsonl")
}
