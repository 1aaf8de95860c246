//! Pages for people: made here, complete without script, and loading nothing from elsewhere.
//!
//! Every text that comes from somewhere is escaped where it is put in. Each picture has a table that says the same.
//! What a page shows is what the routes under `/v1` would tell the same caller.

mod audit;
mod html;
mod login;
mod map;
mod picture;
mod releases;
mod runs;
mod simulate;
mod streams;

pub(super) use audit::{show as audit, verify};
pub(super) use html::{part, problem};
pub(super) use login::{ask, enter, leave};
pub(super) use releases::{list as releases, show as release, try_out};
pub(super) use runs::{list as runs, show as run};
pub(super) use simulate::show as simulate;
pub(super) use streams::{block, list as streams, show as stream};

use super::call::Answer;

pub(super) fn style() -> Answer {
    Answer::of("text/css; charset=utf-8", include_str!("style.css"))
}

pub(super) fn script() -> Answer {
    Answer::of("text/javascript; charset=utf-8", include_str!("script.js"))
}

pub(super) fn icon() -> Answer {
    Answer::of("image/svg+xml", include_str!("icon.svg"))
}
