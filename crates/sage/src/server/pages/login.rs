//! Logging in: a token is pasted once, and the browser sends it from then on, to this server alone.

use super::html::{Life, page};
use crate::server::call::{Answer, Call};
use crate::server::problem::Problem;

const FORM: &str = "<form method=\"post\" action=\"/login\"><label>Token <input name=\"token\" type=\"password\" \
                    autocomplete=\"off\" required></label><button>log in</button></form><p class=\"hint\">A token is \
                    made with: sage token create --as NAME</p>";

pub(in crate::server) fn ask(call: &Call<'_>) -> Result<Answer, Problem> {
    Ok(page(call, Life::Still, "Log in", FORM))
}

/// Sets the cookie of a token that counts.
pub(in crate::server) fn enter(call: &Call<'_>) -> Result<Answer, Problem> {
    let fields: Vec<_> = url::form_urlencoded::parse(&call.body).into_owned().collect();
    let token = fields.iter().find(|(name, _)| name == "token").map_or("", |(_, value)| value.trim());
    if call.server.tokens.found(token).is_none() {
        return Err(Problem::unknown_caller());
    }
    let mut answer = Answer::elsewhere("/");
    // Behind TLS of our own the cookie never leaves it.
    let secure = if call.server.secure { "; Secure" } else { "" };
    answer.headers.push(("set-cookie", format!("sage_token={token}; Path=/; HttpOnly; SameSite=Strict{secure}")));
    Ok(answer)
}

pub(in crate::server) fn leave(_: &Call<'_>) -> Result<Answer, Problem> {
    let mut answer = Answer::elsewhere("/login");
    answer.headers.push(("set-cookie", "sage_token=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0".to_owned()));
    Ok(answer)
}
