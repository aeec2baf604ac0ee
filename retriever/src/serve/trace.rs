//! A request's place in a trace, as the W3C's Trace Context has it: in the log always, and with the feature `otlp` as spans
//! at an OpenTelemetry collector, where `OTEL_EXPORTER_OTLP_ENDPOINT` names one.

use axum::http::HeaderMap;

use super::engine::Timings;

/// Names the trace and the caller's span.
const PARENT: &str = "traceparent";

/// One request.
pub(super) struct Trace {
    id: Option<String>,
    #[cfg(feature = "otlp")]
    span: Option<otlp::Request>,
}

impl Trace {
    pub fn begin(headers: &HeaderMap, method: &str, route: &str) -> Self {
        #[cfg(feature = "otlp")]
        if let Some(span) = otlp::Request::begin(headers, method, route) {
            return Self { id: Some(span.trace_id()), span: Some(span) };
        }
        #[cfg(not(feature = "otlp"))]
        let _ = (method, route);
        Self {
            id: headers.get(PARENT).and_then(|value| trace_id(value.to_str().ok()?)),
            #[cfg(feature = "otlp")]
            span: None,
        }
    }

    /// In hex.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub fn finish(self, path: &str, status: u16, stages: Option<Timings>) {
        #[cfg(feature = "otlp")]
        if let Some(span) = self.span {
            span.finish(path, status, stages);
        }
        #[cfg(not(feature = "otlp"))]
        let _ = (path, status, stages);
    }
}

/// Sends what has not been sent.
pub(super) fn finish() {
    #[cfg(feature = "otlp")]
    otlp::finish();
}

/// The trace of a `traceparent`: version, trace, parent and flags, in hex.
fn trace_id(parent: &str) -> Option<String> {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let mut parts = parent.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let valid = hex(version, 2) && hex(trace, 32) && hex(parent, 16) && hex(flags, 2) && version != "ff";
    // Only later versions may have more to say.
    let whole = version != "00" || parts.next().is_none();
    let named = [trace, parent].iter().all(|part| part.bytes().any(|byte| byte != b'0'));
    (valid && whole && named).then(|| trace.to_owned())
}

#[cfg(feature = "otlp")]
mod otlp {
    use std::sync::OnceLock;
    use std::time::SystemTime;

    use axum::body::Bytes;
    use axum::http::{HeaderMap, Request as HttpRequest, Response};
    use opentelemetry::propagation::{Extractor, TextMapPropagator};
    use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
    use opentelemetry::{Context, KeyValue};
    use opentelemetry_http::{HttpClient, HttpError};
    use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

    use crate::serve::engine::Timings;
    use crate::serve::log;

    const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

    static PROVIDER: OnceLock<Option<SdkTracerProvider>> = OnceLock::new();

    /// Nothing leaves this machine unless a collector is named.
    fn provider() -> Option<&'static SdkTracerProvider> {
        let start = || {
            ENDPOINTS.iter().find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))?;
            let exporter = SpanExporter::builder().with_http().with_http_client(Client).build();
            match exporter {
                Ok(exporter) => {
                    let resource = Resource::builder().with_service_name("hindsearch").build();
                    Some(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
                }
                Err(error) => {
                    log::event("no_traces", &[("error", error.to_string().into())]);
                    None
                }
            }
        };
        PROVIDER.get_or_init(start).as_ref()
    }

    pub fn finish() {
        if let Some(Some(provider)) = PROVIDER.get() {
            // What cannot be sent is lost; the collector is not ours.
            let _ = provider.shutdown();
        }
    }

    /// The span of a request.
    pub struct Request {
        tracer: SdkTracer,
        context: Context,
        begun: SystemTime,
    }

    impl Request {
        pub fn begin(headers: &HeaderMap, method: &str, route: &str) -> Option<Self> {
            let tracer = provider()?.tracer("hindsearch");
            let parent = TraceContextPropagator::new().extract(&Headers(headers));
            let begun = SystemTime::now();
            let attributes = [
                KeyValue::new("http.request.method", method.to_owned()),
                KeyValue::new("http.route", route.to_owned()),
            ];
            let span = tracer
                .span_builder(format!("{method} {route}"))
                .with_kind(SpanKind::Server)
                .with_start_time(begun)
                .with_attributes(attributes)
                .start_with_context(&tracer, &parent);
            Some(Self { context: parent.with_span(span), tracer, begun })
        }

        pub fn trace_id(&self) -> String {
            self.context.span().span_context().trace_id().to_string()
        }

        /// Ends the span, with one below it for each stage of the work.
        pub fn finish(self, path: &str, status: u16, stages: Option<Timings>) {
            let mut at = self.begun;
            for (stage, time) in stages.iter().flat_map(Timings::stages) {
                let span = self.tracer.span_builder(stage).with_start_time(at);
                at += time;
                span.start_with_context(&self.tracer, &self.context).end_with_timestamp(at);
            }
            let span = self.context.span();
            span.set_attribute(KeyValue::new("url.path", path.to_owned()));
            span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
            if status >= 500 {
                span.set_status(Status::error(status.to_string()));
            }
            span.end();
        }
    }

    struct Headers<'a>(&'a HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(|name| name.as_str()).collect()
        }
    }

    /// Sends spans, from the thread that gathers them.
    #[derive(Debug)]
    struct Client;

    #[async_trait::async_trait]
    impl HttpClient for Client {
        async fn send_bytes(&self, request: HttpRequest<Bytes>) -> Result<Response<Bytes>, HttpError> {
            let answer = ureq::run(request.map(|body| body.to_vec()))?;
            let (parts, mut body) = answer.into_parts();
            Ok(Response::from_parts(parts, body.read_to_vec()?.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::trace_id;

    #[test]
    fn a_trace_is_known_by_a_valid_parent_alone() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let parent = format!("00-{trace}-b7ad6b7169203331-01");
        assert_eq!(trace_id(&parent).as_deref(), Some(trace));
        let zero = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        let upper = parent.to_uppercase();
        for bad in ["", "00", &parent[1..], &format!("{parent}-x"), &parent.replacen("00", "ff", 1), &zero, &upper] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }
}
