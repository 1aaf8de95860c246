//! What a browser must prove: that a request with its cookie comes from a page of this server.
//!
//! A browser sends the cookie along whatever page made the request. So every POST that is authenticated by the cookie
//! needs an `Origin` that is this server's own and the token of the form, which is derived from the secret in the
//! cookie and which only a page of this server contains. A login has no cookie yet and needs the `Origin` where a
//! browser sends one. Requests with a bearer token need neither: no browser sends that header by itself.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

use crate::problem::Problem;
use crate::transport::connections::Peer;

/// The field of a form that holds its token.
pub(crate) const FIELD: &str = "form_token";
/// The header in which a script of a page sends it instead.
const HEADER: &str = "x-form-token";

/// How clients reach the server: over TLS of its own, or through proxies that are declared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exposure {
    pub(crate) tls: bool,
    /// Addresses whose `X-Forwarded-For`, `-Proto` and `-Host` are believed.
    pub(crate) proxies: Vec<IpAddr>,
}

/// How one request came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Whether the client's end of it is encrypted.
    pub(crate) secure: bool,
    host: String,
}

impl Exposure {
    /// Whether an address is that of a declared proxy.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.contains(&address.to_canonical())
    }

    /// The client behind a proxy: the last address that the proxy itself has added.
    pub(crate) fn client(&self, peer: &Peer, headers: &HeaderMap) -> Peer {
        let forwarded = || text(headers, "x-forwarded-for")?.rsplit(',').next()?.trim().parse().ok();
        match self.is_proxy(peer.address).then(forwarded).flatten() {
            Some(address) => peer.behind(address),
            None => peer.clone(),
        }
    }

    /// How a request arrived. A declared proxy is assumed to use TLS, unless its header says otherwise.
    pub(crate) fn route(&self, peer: &Peer, headers: &HeaderMap) -> Route {
        let host = || text(headers, "host").unwrap_or_default().to_owned();
        if !self.is_proxy(peer.address) {
            return Route { secure: self.tls, host: host() };
        }
        let plain = text(headers, "x-forwarded-proto").is_some_and(|proto| proto.eq_ignore_ascii_case("http"));
        let forwarded = text(headers, "x-forwarded-host").map(str::to_owned);
        Route { secure: !plain, host: forwarded.unwrap_or_else(host) }
    }
}

impl Route {
    /// The origin of this server's pages, as a browser sends it.
    fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.host)
    }

    /// Refuses a request from a page of another origin.
    fn same_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let own = self.origin();
        let given = text(headers, header::ORIGIN.as_str());
        if given.is_some_and(|origin| origin.eq_ignore_ascii_case(&own)) {
            return Ok(());
        }
        Err(Problem::forbidden(format!(
            "this request does not come from a page of {own}; log in there, or send the token as Authorization: Bearer \
             TOKEN (behind a proxy, the operator declares it with --proxy)"
        )))
    }

    /// Refuses a login from a page of another origin. Clients other than browsers send no `Origin`.
    pub(crate) fn check_login(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if headers.contains_key(header::ORIGIN) { self.same_origin(headers) } else { Ok(()) }
    }

    /// Refuses a request with a cookie unless it comes from a page of this server and has its form token.
    pub(crate) fn check_form(&self, headers: &HeaderMap, cookie: &str, body: &[u8]) -> Result<(), Problem> {
        self.same_origin(headers)?;
        let expected = form_token(cookie);
        let sent = text(headers, HEADER).map(str::to_owned).or_else(|| {
            url::form_urlencoded::parse(body).find(|(name, _)| name == FIELD).map(|(_, value)| value.into_owned())
        });
        let hash = |hex: &str| blake3::Hash::from_hex(hex).ok();
        // Hashes are compared in constant time.
        if sent.as_deref().and_then(hash).is_some_and(|sent| Some(sent) == hash(&expected)) {
            return Ok(());
        }
        Err(Problem::forbidden("the form is out of date: load the page again and repeat the step"))
    }
}

/// The token of forms on pages for the holder of this cookie.
pub(crate) fn form_token(cookie: &str) -> String {
    blake3::Hash::from(blake3::derive_key("sage: the token of a form", cookie.as_bytes())).to_hex().to_string()
}

/// The field of a form with its token.
pub(crate) fn form_field(cookie: Option<&str>) -> String {
    let field = |cookie| format!("<input type=\"hidden\" name=\"{FIELD}\" value=\"{}\">", form_token(cookie));
    cookie.map(field).unwrap_or_default()
}

/// The token in the cookie of a request.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let mut cookies = text(headers, header::COOKIE.as_str())?.split(';').map(str::trim);
    cookies.find_map(|cookie| cookie.strip_prefix("sage_token=")).map(str::trim)
}

/// The token in the `Authorization` of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    text(headers, header::AUTHORIZATION.as_str())?.strip_prefix("Bearer ").map(str::trim)
}

fn text<'map>(headers: &'map HeaderMap, name: &str) -> Option<&'map str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().expect("a name"), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn only_a_page_of_this_server_posts_with_its_cookie() {
        let route = Route { secure: false, host: "127.0.0.1:7878".to_owned() };
        let form = format!("a=1&{FIELD}={}", form_token("secret"));
        for (origin, body, fine) in [
            (Some("http://127.0.0.1:7878"), form.as_str(), true),
            (Some("http://127.0.0.1:7879"), &form, false),
            (Some("https://127.0.0.1:7878"), &form, false),
            (Some("null"), &form, false),
            (None, &form, false),
            (Some("http://127.0.0.1:7878"), "a=1", false),
            (Some("http://127.0.0.1:7878"), &format!("{FIELD}={}", form_token("other")), false),
            (Some("http://127.0.0.1:7878"), &format!("{FIELD}="), false),
        ] {
            let sent: Vec<(&'static str, &str)> = origin.into_iter().map(|origin| ("origin", origin)).collect();
            let checked = route.check_form(&headers(&sent), "secret", body.as_bytes());
            assert_eq!(checked.is_ok(), fine, "{origin:?} {body}");
        }
        assert!(route.check_login(&headers(&[])).is_ok());
        assert!(route.check_login(&headers(&[("origin", "http://evil.example")])).is_err());
    }
}
