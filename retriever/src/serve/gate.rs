//! Who may ask: the Host and Origin that are served, the token, and no new work while the server stops.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderValue, header};

use super::fault::{Code, Fault};
use super::options::ServeOptions;
use super::service::Service;

/// Routes that say no more than that the server is there, and the pages, which hold no data.
const OPEN: [&str; 8] = ["/", "/docs", "/pages/{file}", "/favicon.ico", "/health", "/livez", "/readyz", "/healthz"];

/// Lets a request through to `route`, or says why not.
pub(super) fn admit(service: &Service, request: &Request, route: &str) -> Result<(), Fault> {
    let options = service.options();
    check_host(options, request)?;
    check_origin(options, request)?;
    let open = OPEN.contains(&route) || (route.starts_with("/dialect/") && route.ends_with("/health"));
    // By the route that was matched, so that no way of writing its path goes around it.
    if !open {
        check_token(options, request)?;
    }
    if service.is_draining() && !open {
        service.metrics().shed("draining");
        return Err(Fault::unavailable("the server is being stopped"));
    }
    Ok(())
}

/// A page elsewhere can have its own name point at this machine; its requests still bear that name.
fn check_host(options: &ServeOptions, request: &Request) -> Result<(), Fault> {
    let said = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let headers: Vec<&HeaderValue> = request.headers().get_all(header::HOST).iter().collect();
    let said = match (said, headers[..].first()) {
        (Some(said), _) => said,
        (None, Some(value)) if headers.len() == 1 => String::from_utf8_lossy(value.as_bytes()).into_owned(),
        (None, None) => return Err(Fault::new(Code::Forbidden, "no Host header")),
        _ => return Err(Fault::new(Code::Forbidden, "more than one Host header")),
    };
    let host = without_port(&said);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let known = match address {
        // An address cannot be pointed elsewhere as a name can.
        Some(address) => address.is_loopback() || !options.address.ip().is_loopback(),
        None => host.eq_ignore_ascii_case("localhost"),
    };
    let listed =
        options.hosts.iter().any(|listed| host.eq_ignore_ascii_case(listed) || said.eq_ignore_ascii_case(listed));
    if known || listed {
        return Ok(());
    }
    Err(Fault::new(Code::Forbidden, format!("the Host {said:?} is not served; allow it with `--allow-host`")))
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

fn check_origin(options: &ServeOptions, request: &Request) -> Result<(), Fault> {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
    let origin = String::from_utf8_lossy(origin.as_bytes());
    let host = request.headers().get(header::HOST).map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let own = host.is_some_and(|host| origin.eq_ignore_ascii_case(&format!("{scheme}://{host}")));
    if own || options.origins.iter().any(|listed| listed.eq_ignore_ascii_case(&origin)) {
        return Ok(());
    }
    Err(Fault::new(Code::Forbidden, format!("pages of {origin:?} may not ask; allow them with `--allow-origin`")))
}

fn check_token(options: &ServeOptions, request: &Request) -> Result<(), Fault> {
    if options.tokens.is_empty() {
        return Ok(());
    }
    let headers = request.headers();
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    let given = bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes));
    let given = given.ok_or_else(|| {
        Fault::new(Code::Unauthorized, "this server wants a token: send `Authorization: Bearer TOKEN`")
    })?;
    // All of them, so that the time does not tell which one was close.
    let known = options.tokens.iter().fold(false, |known, token| token.matches(given) | known);
    if known { Ok(()) } else { Err(Fault::new(Code::Unauthorized, "the token is not one of this server's")) }
}
