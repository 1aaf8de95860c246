//! Arrow Flight on systems without a sandbox: no program is started there, so no rows are served.

use std::io;
use std::path::Path;

use arrow::array::RecordBatch;

/// A server for one program. There is none on this system, so this type has no values.
pub(crate) enum Serving {}

impl Serving {
    /// Always an error.
    pub(super) fn start(_: &Path, _: Vec<RecordBatch>) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "Arrow Flight serves programs in a sandbox, which needs Linux"))
    }

    /// The path of the socket.
    pub(super) fn socket(&self) -> &Path {
        match *self {}
    }

    /// The ticket for the rows.
    pub(super) fn ticket(&self) -> &str {
        match *self {}
    }
}
