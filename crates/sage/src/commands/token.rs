//! `sage token`: creates, lists and revokes server tokens.

use clap::{Args, Subcommand, ValueEnum};
use sage_server::diagnostics::note;
use sage_server::format::quoted;
use sage_server::tokens::{self, NewToken};
use sage_server::views::tokens::{CreatedToken, TokenSummary};

use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage token create --as mia
  sage token create --as ops --role admin --days 90
  sage token list
  sage token revoke 1f2e3d4c

A token carries a name. The [access] section of each stream's file says what the name may do; a name that
is in none of them sees what was released. The token is printed once and kept nowhere.";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once
    Create(CreateArgs),
    /// All tokens, without their secrets
    List(ListArgs),
    /// Revoke a token
    Revoke(RevokeArgs),
}

/// The role of a token that is not of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TokenRole {
    /// Can read the budgets and runs of every stream, and change none
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
    /// Days until it expires [default: never]
    #[arg(long, value_name = "NUMBER")]
    days: Option<u32>,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RevokeArgs {
    /// The token's id: the part between its last two underscores
    id: String,
    #[command(flatten)]
    directory: DirectoryArgs,
}

pub(crate) fn run(command: &TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(args) => create(args),
        TokenCommand::List(args) => list(args),
        TokenCommand::Revoke(args) => {
            args.directory.check_exists()?;
            if !tokens::revoke(&args.directory.dir, &args.id).map_err(failed)? {
                let message = format!("there is no token {}; list them with: sage token list", quoted(&args.id));
                return Err(Failure::Engine { message, code: 14 });
            }
            print(&format!("token {} is revoked\n", args.id))
        }
    }
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    args.directory.check_exists()?;
    let name = args.name.trim();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Failure::usage(
            "a token needs a name",
            "give one as in the [access] of a stream's file: --as NAME",
        ));
    }
    let admin = args.role == Some(TokenRole::Admin);
    let token = tokens::create(&args.directory.dir, &NewToken { name, admin, days: args.days }).map_err(failed)?;
    if args.json {
        return print_json(&CreatedToken { token, name: name.to_owned(), admin });
    }
    note("save it: it is shown only once; send it as: Authorization: Bearer TOKEN");
    print(&format!("{token}\n"))
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    args.directory.check_exists()?;
    let all = tokens::load(&args.directory.dir).map_err(failed)?;
    let all: Vec<TokenSummary> = all.iter().map(TokenSummary::from).collect();
    if args.json {
        return print_json(&all);
    }
    if all.is_empty() {
        return print("no token yet; next: sage token create --as NAME\n");
    }
    let width = all.iter().map(|token| token.name.chars().count()).max().unwrap_or(4).max(4);
    let mut text = format!("id        {:width$}  role   created               state\n", "name");
    for token in &all {
        let role = if token.admin { "admin" } else { "-" };
        text += &format!("{}  {:width$}  {role:5}  {:20}  {}\n", token.id, token.name, token.created, token.state);
    }
    print(&text)
}

fn failed(error: std::io::Error) -> Failure {
    Failure::no_answer(format!("tokens.json: {error}"), "name a directory that you own with --dir")
}
