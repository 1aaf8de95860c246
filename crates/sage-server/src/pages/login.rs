//! Logging in with a token, which the browser then keeps in a cookie for this server.

use axum::http::StatusCode;

use super::html::{Life, page};
use crate::call::{Call, Reply};
use crate::problem::Problem;

const FORM: &str = "<form class=\"card narrow\" method=\"post\" action=\"/login\"><label \
                    for=\"token\">Token</label><input id=\"token\" name=\"token\" type=\"password\" \
                    autocomplete=\"off\" required aria-describedby=\"about\"><p class=\"hint\" id=\"about\">The \
                    operator of the server creates one with <code>sage token create --as NAME</code>. It is stored in a cookie that \
                    no script can read.</p><button>Log in</button></form>";

pub(crate) fn ask(call: &Call<'_>) -> Result<Reply, Problem> {
    Ok(page(call, Life::Still, "Log in", FORM))
}

/// Checks the token and sets its cookie.
pub(crate) fn enter(call: &Call<'_>) -> Result<Reply, Problem> {
    let fields: Vec<_> = url::form_urlencoded::parse(&call.body).into_owned().collect();
    let token = fields.iter().find(|(name, _)| name == "token").map_or("", |(_, value)| value.trim());
    if call.server.tokens.found(token).is_none() {
        let content = format!(
            "<p class=\"notice bad\" role=\"alert\">This token is not valid: it is unknown, revoked or expired.</p>{FORM}"
        );
        return Ok(Reply { status: StatusCode::UNAUTHORIZED, ..page(call, Life::Still, "Log in", &content) });
    }
    let mut answer = Reply::redirect("/");
    // With TLS, by this server or by a declared proxy, the browser sends the cookie over TLS only.
    let secure = if call.secure { "; Secure" } else { "" };
    answer.headers.push(("set-cookie", format!("sage_token={token}; Path=/; HttpOnly; SameSite=Strict{secure}")));
    Ok(answer)
}

pub(crate) fn leave(_: &Call<'_>) -> Result<Reply, Problem> {
    let mut answer = Reply::redirect("/login");
    answer.headers.push(("set-cookie", "sage_token=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0".to_owned()));
    Ok(answer)
}
