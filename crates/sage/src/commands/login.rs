//! `sage login`: checks a token for a server and stores it in a file that only its owner can read.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use clap::Args;
use sage_engine::private;
use sage_server::diagnostics::note;
use sage_server::views::directory::LoginResult;
use serde::{Deserialize, Serialize};

use crate::client::RemoteClient;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::settings;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage login https://sage.example.org < token.txt
  SAGE_TOKEN=sage_pat_... sage login http://127.0.0.1:7878
  sage runs --server http://127.0.0.1:7878

The token comes from SAGE_TOKEN or from standard input, and never from the command line, where others could see it. It is
tried on the server first. Commands that can ask a server take --server ADDRESS (or SAGE_SERVER); where there is no
directory, they ask the server of the last login.";

#[derive(Args, Debug)]
pub(crate) struct LoginArgs {
    /// The address of the server
    address: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The tokens of a user.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Logins {
    /// The server of the last login.
    last: Option<String>,
    tokens: BTreeMap<String, String>,
}

fn file() -> Result<PathBuf, Failure> {
    let folder = settings::folder();
    let none = || Failure::no_answer("the token cannot be stored: HOME is not set", "set HOME or XDG_CONFIG_HOME");
    Ok(folder.ok_or_else(none)?.join("login.json"))
}

impl Logins {
    /// The saved logins; empty before the first one.
    pub(crate) fn read() -> Self {
        let bytes = file().ok().and_then(|file| std::fs::read(file).ok());
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    pub(crate) fn token(&self, address: &str) -> Option<&str> {
        self.tokens.get(address).map(String::as_str)
    }

    fn write(&self) -> Result<PathBuf, Failure> {
        let path = file()?;
        let write = || {
            let folder = path.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
            private::make_directories(folder)?;
            let fresh = path.with_extension("new");
            let mut file = private::create(&fresh)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            std::fs::rename(&fresh, &path)
        };
        match write() {
            Ok(()) => Ok(path),
            Err(error) => {
                Err(Failure::no_answer(format!("{}: {error}", path.display()), "repair the folder or its permissions"))
            }
        }
    }
}

pub(crate) fn run(args: &LoginArgs) -> Result<(), Failure> {
    let address = args.address.trim_end_matches('/').to_owned();
    let token = token()?;
    RemoteClient::new(&address, Some(token.clone()))?.check_token()?;
    let mut logins = Logins::read();
    logins.tokens.insert(address.clone(), token);
    logins.last = Some(address.clone());
    let path = logins.write()?;
    note(&format!("the token is in {}, which only you can read", path.display()));
    if args.json { print_json(&LoginResult { server: address }) } else { print(&format!("logged in to {address}\n")) }
}

fn token() -> Result<String, Failure> {
    let named = std::env::var("SAGE_TOKEN").ok().filter(|token| !token.trim().is_empty());
    let token = match named {
        Some(token) => token,
        None => {
            note("paste the token and press enter");
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
            line
        }
    };
    let token = token.trim().to_owned();
    match token.is_empty() || token.chars().any(|sign| sign.is_control() || sign.is_whitespace()) {
        true => Err(Failure::usage("there is no token", "SAGE_TOKEN=... sage login ADDRESS")),
        false => Ok(token),
    }
}
