//! `sage token`: who may talk to a server.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::failure::{Failure, quoted};
use crate::output::{print, print_json, tell};
use crate::place::PlaceArgs;
use crate::runs::instant;
use crate::server::tokens::{self, Token, Wanted};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage token create --as mia
  sage token create --as ops --role admin --days 90
  sage token list
  sage token revoke 1f2e3d4c

A token carries a name. What the name may do is said in the [access] section of each stream's file; somebody who
is named nowhere sees what was released. The token is printed once and kept nowhere.";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, once
    Create(CreateArgs),
    /// All tokens, without their secrets
    List(ListArgs),
    /// Have a token no longer count
    Revoke(RevokeArgs),
}

/// What a token can be beyond a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TokenRole {
    /// Sees every stream's budgets and runs, and changes none
    Admin,
}

#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    /// The name under which stream files know the holder
    #[arg(long = "as", value_name = "NAME")]
    name: String,
    /// A role that is not a stream's
    #[arg(long, value_name = "ROLE")]
    role: Option<TokenRole>,
    /// For so many days [default: until it is revoked]
    #[arg(long, value_name = "NUMBER")]
    days: Option<u32>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RevokeArgs {
    /// The token's id: what stands between its two last underscores
    id: String,
    #[command(flatten)]
    place: PlaceArgs,
}

pub(crate) fn run(command: &TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(asked) => create(asked),
        TokenCommand::List(asked) => list(asked),
        TokenCommand::Revoke(asked) => {
            asked.place.is_there()?;
            if !tokens::revoke(&asked.place.dir, &asked.id).map_err(failed)? {
                let message = format!("there is no token {}; list them with: sage token list", quoted(&asked.id));
                return Err(Failure::Engine { message, code: 14 });
            }
            print(&format!("token {} no longer counts\n", asked.id))
        }
    }
}

fn create(asked: &CreateArgs) -> Result<(), Failure> {
    asked.place.is_there()?;
    let name = asked.name.trim();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Failure::usage(
            "a token needs a name",
            "give one as in the [access] of a stream's file: --as NAME",
        ));
    }
    let admin = asked.role == Some(TokenRole::Admin);
    let token = tokens::create(&asked.place.dir, &Wanted { name, admin, days: asked.days }).map_err(failed)?;
    if asked.json {
        return print_json(&json!({"token": token, "name": name, "admin": admin}));
    }
    tell("keep it: it is shown this once; send it as: Authorization: Bearer TOKEN");
    print(&format!("{token}\n"))
}

fn list(asked: &ListArgs) -> Result<(), Failure> {
    asked.place.is_there()?;
    let all = tokens::load(&asked.place.dir).map_err(failed)?;
    if asked.json {
        return print_json(&all.iter().map(object).collect());
    }
    if all.is_empty() {
        return print("no token yet; next: sage token create --as NAME\n");
    }
    let width = all.iter().map(|token| token.name.chars().count()).max().unwrap_or(4).max(4);
    let mut text = format!("id        {:width$}  role   created               state\n", "name");
    for token in &all {
        let role = if token.admin { "admin" } else { "-" };
        let created = instant(token.created * 1000);
        text += &format!("{}  {:width$}  {role:5}  {created:20}  {}\n", token.id, token.name, state(token));
    }
    print(&text)
}

fn object(token: &Token) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "admin": token.admin,
        "created": instant(token.created * 1000),
        "expires": token.expires.map(|end| instant(end * 1000)),
        "state": state(token),
    })
}

fn state(token: &Token) -> &'static str {
    match (token.revoked, token.is_good(tokens::seconds())) {
        (Some(_), _) => "revoked",
        (None, true) => "good",
        (None, false) => "over",
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::no_answer(format!("tokens.json: {error}"), "name a directory that you own with --dir")
}
