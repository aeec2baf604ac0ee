//! How does a file grow by whole records only, whatever the disk answers?

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use hindsearch_indexes::storage::{Disk, Storage, parent};

/// A file that is appended to. It is opened for each record, so that one that was moved away or came back is no trouble.
pub(super) struct Appended {
    path: PathBuf,
    told: bool,
    /// Whether its name is durable.
    named: bool,
}

/// A record that is not in the file.
pub(super) struct Failure {
    /// Whether a record was lost; syncing loses none.
    pub lost: bool,
    /// Why, for the first time only.
    pub first: Option<String>,
}

pub(super) type Written = Result<(), Failure>;

impl Appended {
    pub fn new(path: PathBuf) -> Self {
        Self { path, told: false, named: false }
    }

    pub fn append(&mut self, record: &[u8]) -> Written {
        let written = OpenOptions::new().append(true).create(true).open(&self.path).and_then(|mut file| {
            let before = file.metadata()?.len();
            file.write_all(record).inspect_err(|_| {
                // A part of it may be there, and would spoil the next one.
                let _ = file.set_len(before);
            })
        });
        self.outcome(written, true)
    }

    /// Makes what is in the file durable, and the file's name too.
    pub fn sync(&mut self) -> Written {
        let synced = match File::open(&self.path) {
            // Nothing was recorded yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            file => file.and_then(|file| file.sync_data()).and_then(|()| {
                if !self.named {
                    Disk.sync(parent(&self.path))?;
                    self.named = true;
                }
                Ok(())
            }),
        };
        self.outcome(synced, false)
    }

    fn outcome(&mut self, written: io::Result<()>, lost: bool) -> Written {
        let error = match written {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let first = !std::mem::replace(&mut self.told, true);
        let why = || {
            format!(
                "cannot write `{}`: {error}; the run goes on, and what cannot be written is lost",
                self.path.display()
            )
        };
        Err(Failure { lost, first: first.then(why) })
    }
}
