//! A macro that implements `Display`, and `Error` where needed, from one message per variant.

/// Implements `Display` for a type from a message per pattern; `error` before the type implements `Error` too.
macro_rules! display {
    (error $type:ident { $($variant:pat => $text:expr),* $(,)? }) => {
        $crate::message::display!($type { $($variant => $text),* });
        impl std::error::Error for $type {}
    };
    ($type:ident { $($variant:pat => $text:expr),* $(,)? }) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($variant => out.pad(&$text)),*
                }
            }
        }
    };
}

pub(crate) use display;
