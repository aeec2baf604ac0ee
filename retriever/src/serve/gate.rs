//! Who may ask: the Host and Origin that are served, the token, and no new work while the server stops. And whose pages
//! may read the answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};

use super::fault::{Code, Fault};
use super::options::ServeOptions;
use super::service::Service;

/// Routes that say no more than that the server is there, and the pages, which hold no data.
const OPEN: [&str; 7] = ["/", "/docs", "/pages/{file}", "/health", "/livez", "/readyz", "/healthz"];

/// What a preflight grants to the pages of a listed origin.
const GRANTS: [(HeaderName, &str); 3] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "authorization, content-type, last-event-id, mcp-protocol-version, mcp-session-id, traceparent, x-api-key, \
         x-request-id, x-request-timeout-ms, x-retrieval-dialect",
    ),
    (header::ACCESS_CONTROL_MAX_AGE, "600"),
];
/// Headers of an answer that such a page may read beside the ordinary ones.
const EXPOSED: &str = "mcp-session-id, retry-after, x-request-id";

/// Lets a request through to `route`, or says why not. A page's question whether it may ask is answered here.
pub(super) fn admit(service: &Service, request: &Request, route: &str) -> Result<Option<Response>, Fault> {
    let options = service.options();
    check_framing(request)?;
    let host = check_host(options, request)?;
    check_origin(options, request, &host)?;
    // A browser sends no token with it.
    if is_preflight(request) && granted(options, request.headers()).is_some() {
        return Ok(Some((StatusCode::NO_CONTENT, GRANTS).into_response()));
    }
    let open = OPEN.contains(&route) || (route.starts_with("/dialect/") && route.ends_with("/health"));
    // By the route that was matched, so that no way of writing its path goes around it.
    if !open {
        check_token(service, request)?;
    }
    if service.is_draining() && !open {
        service.metrics().shed("draining");
        return Err(Fault::unavailable("the server is being stopped"));
    }
    Ok(None)
}

/// Where two programs in a row could differ about a request's end, the second would see a request that nobody sent.
fn check_framing(request: &Request) -> Result<(), Fault> {
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Fault::new(Code::Malformed, "Transfer-Encoding: only `chunked` is known, and only once")),
    }
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The request's origin, if it is a listed one: its pages may read the answer.
pub(super) fn granted(options: &ServeOptions, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let listed = |listed: &String| listed.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
    options.origins.iter().any(listed).then(|| origin.clone())
}

/// Tells the browser whose pages may read an answer.
pub(super) fn grant(options: &ServeOptions, granted: Option<HeaderValue>, headers: &mut HeaderMap) {
    if !options.origins.is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    if let Some(origin) = granted {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}

/// A page elsewhere can have its own name point at this machine; its requests still bear that name.
fn check_host(options: &ServeOptions, request: &Request) -> Result<String, Fault> {
    let forbidden = |message: String| Err(Fault::new(Code::Forbidden, message));
    let mut headers = request.headers().get_all(header::HOST).iter();
    let said = match (headers.next(), headers.next()) {
        (Some(said), None) => String::from_utf8_lossy(said.as_bytes()).into_owned(),
        // Load balancers ask in HTTP/1.0; browsers, which are what the check is for, never do.
        (None, _) if request.version() == Version::HTTP_10 => match request.uri().authority() {
            Some(target) => target.as_str().to_owned(),
            None => return Ok(String::new()),
        },
        (None, _) => return forbidden("no Host header".into()),
        _ => return forbidden("more than one Host header".into()),
    };
    if let Some(target) = request.uri().authority().filter(|target| !target.as_str().eq_ignore_ascii_case(&said)) {
        return forbidden(format!("the Host {said:?} is not that of the address asked for, {:?}", target.as_str()));
    }
    let host = without_port(&said);
    let known = match address(host) {
        // An address cannot be pointed elsewhere as a name can.
        Some(address) => address.is_loopback() || !options.address.ip().is_loopback(),
        None => host.eq_ignore_ascii_case("localhost"),
    };
    let listed =
        options.hosts.iter().any(|listed| host.eq_ignore_ascii_case(listed) || said.eq_ignore_ascii_case(listed));
    if known || listed {
        return Ok(said);
    }
    forbidden(format!("the Host {said:?} is not served; allow it with `--allow-host`"))
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(six) => six.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::from),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

fn check_origin(options: &ServeOptions, request: &Request, host: &str) -> Result<(), Fault> {
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    if origins.next().is_some() {
        return Err(Fault::new(Code::Forbidden, "more than one Origin header"));
    }
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let own = origin.as_bytes().eq_ignore_ascii_case(format!("{scheme}://{host}").as_bytes());
    if own || granted(options, request.headers()).is_some() {
        return Ok(());
    }
    let origin = String::from_utf8_lossy(origin.as_bytes());
    Err(Fault::new(Code::Forbidden, format!("pages of {origin:?} may not ask; allow them with `--allow-origin`")))
}

fn check_token(service: &Service, request: &Request) -> Result<(), Fault> {
    let tokens = service.tokens();
    if tokens.is_empty() {
        return Ok(());
    }
    let headers = request.headers();
    let refuse = |message: &str| Err(Fault::new(Code::Unauthorized, message));
    let mut said = headers.get_all(header::AUTHORIZATION).iter().chain(headers.get_all("x-api-key"));
    let (first, None) = (said.next(), said.next()) else {
        return refuse("more than one header names a token");
    };
    let given = first.and_then(|value| match headers.contains_key(header::AUTHORIZATION) {
        false => Some(value.as_bytes()),
        true => {
            let (scheme, token) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
        }
    });
    let Some(given) = given else {
        return refuse("this server wants a token: send `Authorization: Bearer TOKEN`");
    };
    // All of them, so that the time does not tell which one was close.
    let known = tokens.iter().fold(false, |known, token| token.matches(given) | known);
    if known { Ok(()) } else { refuse("the token is not one of this server's") }
}
