//! HTML pages. They are rendered on the server, work without script, and load nothing from other hosts.
//!
//! Every text is escaped where it is inserted. Each picture has a table with the same content. A page shows only what
//! the routes under `/v1` return to the same caller.

mod audit;
mod html;
mod login;
mod map;
mod picture;
mod releases;
mod runs;
mod simulate;
mod streams;

pub(crate) use audit::{show as audit, verify};
pub(crate) use html::problem;
pub(crate) use login::{ask, enter, leave};
pub(crate) use releases::{list as releases, show as release, try_out};
pub(crate) use runs::{list as runs, show as run};
pub(crate) use simulate::show as simulate;
pub(crate) use streams::{block, list as streams, show as stream};

use crate::call::Reply;

pub(crate) fn style() -> Reply {
    Reply::new("text/css; charset=utf-8", include_str!("style.css"))
}

pub(crate) fn script() -> Reply {
    Reply::new("text/javascript; charset=utf-8", include_str!("script.js"))
}

pub(crate) fn icon() -> Reply {
    Reply::new("image/svg+xml", include_str!("icon.svg"))
}
