//! What a monitoring system is told, in Prometheus's text format.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Seconds: from what a cached query takes to what a deadline allows.
const SECONDS: [f64; 15] =
    [0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0];
const TEXTS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Why a request is refused for load.
const SHED: [&str; 5] = ["in_flight", "queue", "wait", "memory", "draining"];
/// How a batch is lost.
const FAILURES: [&str; 3] = ["error", "panic", "hang"];
/// What becomes of a new generation.
const SWAPS: [&str; 2] = ["served", "refused"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeOf {
    outcome: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All counters of a server.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    request_seconds: Histograms<Route>,
    stage_seconds: Histograms<Stage>,
    batch_texts: Histograms<Stage>,
    shed: Family<Reason, Counter>,
    worker_failures: Family<Kind, Counter>,
    swaps: Family<OutcomeOf, Counter>,
    pub(super) cancelled: Counter,
    pub(super) deduplicated: Counter,
    pub(super) cache_hits: Counter,
    pub(super) cache_misses: Counter,
    pub(super) queue_texts: Gauge,
    pub(super) in_flight: Gauge,
    pub(super) connections: Gauge,
    pub(super) generation: Gauge,
    pub(super) rows: Gauge,
    pub(super) ready: Gauge,
    pub(super) page_in: Gauge,
    pub(super) page_in_total: Gauge,
    resident: Gauge,
    descriptors: Gauge,
    cpu: Counter<f64, AtomicU64>,
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

fn texts() -> Histogram {
    Histogram::new(TEXTS)
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            stage_seconds: Family::new_with_constructor(seconds),
            batch_texts: Family::new_with_constructor(texts),
            shed: Family::default(),
            worker_failures: Family::default(),
            swaps: Family::default(),
            cancelled: Counter::default(),
            deduplicated: Counter::default(),
            cache_hits: Counter::default(),
            cache_misses: Counter::default(),
            queue_texts: Gauge::default(),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            generation: Gauge::default(),
            rows: Gauge::default(),
            ready: Gauge::default(),
            page_in: Gauge::default(),
            page_in_total: Gauge::default(),
            resident: Gauge::default(),
            descriptors: Gauge::default(),
            cpu: Counter::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        let own = registry.sub_registry_with_prefix("hindsearch");
        own.register("requests", "Requests answered", self.requests.clone());
        own.register_with_unit(
            "request",
            "Time until a request was answered",
            Unit::Seconds,
            self.request_seconds.clone(),
        );
        own.register_with_unit("stage", "Time in a stage of a search", Unit::Seconds, self.stage_seconds.clone());
        own.register(
            "batch_texts",
            "Texts that shared a run of the model or a pass over the index",
            self.batch_texts.clone(),
        );
        own.register("shed", "Requests refused for load", self.shed.clone());
        own.register("worker_failures", "Batches lost to an error, a panic or a hang", self.worker_failures.clone());
        own.register("swaps", "Attempts to serve a new generation", self.swaps.clone());
        own.register("cancelled", "Requests given up by the client or its deadline", self.cancelled.clone());
        own.register("deduplicated", "Texts that were on their way already", self.deduplicated.clone());
        own.register("cache_hits", "Texts whose vector was known", self.cache_hits.clone());
        own.register("cache_misses", "Texts whose vector was not known", self.cache_misses.clone());
        own.register("queue_texts", "Texts that wait for the model", self.queue_texts.clone());
        own.register("requests_in_flight", "Requests being worked on", self.in_flight.clone());
        own.register("connections", "Open connections", self.connections.clone());
        own.register("index_generation", "Number of the generation that is served", self.generation.clone());
        own.register("index_rows", "Passages in it", self.rows.clone());
        own.register("ready", "1 when requests are answered", self.ready.clone());
        own.register("page_in_bytes", "Bytes of the index read ahead so far", self.page_in.clone());
        own.register("page_in_total_bytes", "Bytes of the index", self.page_in_total.clone());
        // A counter that is born at 1 has not increased, as Prometheus sees it.
        for reason in SHED {
            drop(self.shed.get_or_create(&Reason { reason }));
        }
        for kind in FAILURES {
            drop(self.worker_failures.get_or_create(&Kind { kind }));
        }
        for outcome in SWAPS {
            drop(self.swaps.get_or_create(&OutcomeOf { outcome }));
        }
        registry.register("process_resident_memory_bytes", "Memory of the process", self.resident.clone());
        registry.register("process_open_fds", "Open file descriptors", self.descriptors.clone());
        registry.register("process_cpu_seconds", "Processor time of the process since it started", self.cpu.clone());
    }

    pub(super) fn answered(&self, route: &str, status: u16, time: Duration) {
        self.requests.get_or_create(&Answered { route: route.to_owned(), status }).inc();
        self.request_seconds.get_or_create(&Route { route: route.to_owned() }).observe(time.as_secs_f64());
    }

    pub(super) fn stage(&self, stage: &'static str, time: Duration) {
        self.stage_seconds.get_or_create(&Stage { stage }).observe(time.as_secs_f64());
    }

    pub(super) fn batch(&self, stage: &'static str, texts: usize) {
        self.batch_texts.get_or_create(&Stage { stage }).observe(texts as f64);
    }

    pub(super) fn shed(&self, reason: &'static str) {
        self.shed.get_or_create(&Reason { reason }).inc();
    }

    pub(super) fn worker_failed(&self, kind: &'static str) {
        self.worker_failures.get_or_create(&Kind { kind }).inc();
    }

    pub(super) fn swapped(&self, outcome: &'static str) {
        self.swaps.get_or_create(&OutcomeOf { outcome }).inc();
    }

    /// The page that Prometheus fetches.
    pub(super) fn page(&self) -> String {
        let (memory, descriptors, cpu) = process();
        self.resident.set(memory);
        self.descriptors.set(descriptors);
        self.cpu.inner().store(cpu.to_bits(), Ordering::Relaxed);
        let mut page = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut page, &self.registry);
        page
    }
}

/// Resident bytes, open descriptors and seconds of processor time; zeros where the system does not tell.
fn process() -> (i64, i64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.and_then(|line| line.trim().trim_end_matches(" kB").parse::<i64>().ok()).unwrap_or(0);
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as i64);
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    (kilobytes * 1024, descriptors, Duration::try_from(cpu).unwrap_or_default().as_secs_f64())
}
