//! Tokens, without their secrets.

use serde::{Deserialize, Serialize};

use crate::format::timestamp;
use crate::tokens::{self, Token};

/// A token in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenSummary {
    /// The public half.
    pub id: String,
    /// The user.
    pub name: String,
    /// Whether it is an admin token.
    pub admin: bool,
    /// When it was created.
    pub created: String,
    /// When it expires.
    pub expires: Option<String>,
    /// `good`, `revoked` or `over`.
    pub state: String,
}

impl From<&Token> for TokenSummary {
    fn from(token: &Token) -> Self {
        let state = match (token.revoked, token.is_valid(tokens::seconds())) {
            (Some(_), _) => "revoked",
            (None, true) => "good",
            (None, false) => "over",
        };
        Self {
            id: token.id.clone(),
            name: token.name.clone(),
            admin: token.admin,
            created: timestamp(token.created * 1000),
            expires: token.expires.map(|end| timestamp(end * 1000)),
            state: state.to_owned(),
        }
    }
}

/// A token that was created, with its secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatedToken {
    /// The whole token.
    pub token: String,
    /// The user.
    pub name: String,
    /// Whether it is an admin token.
    pub admin: bool,
}
