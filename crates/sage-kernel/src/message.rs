//! One sentence for each thing that can be said, without the ceremony.

/// How the values of a type read; an error too, if it is called one.
macro_rules! says {
    (error $type:ident { $($variant:pat => $text:expr),* $(,)? }) => {
        $crate::message::says!($type { $($variant => $text),* });
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

pub(crate) use says;
