//! The settings file, and the origin of every value: flags precede the environment, which precedes the file.
//!
//! A file may set every flag that has an environment variable, by the flag's name. Its values are the defaults of the
//! parser, so that they are parsed and validated like any other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Subcommand};
use sage_server::format::quoted;
use sage_server::views::directory::SettingValue;

use crate::commands::serve::ServeArgs;
use crate::directory::UserArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::suggest::nearest;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage config show
  sage config show --dir elsewhere
  SAGE_PRINCIPAL=mia sage config show --json

A flag precedes its environment variable, which precedes the file, which precedes the built-in default. The file is
config.toml in the folder sage of your configuration, or the path in SAGE_CONFIG, with lines such as:
  dir = \"/srv/sage\"
  as = \"mia\"";

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every setting, its value and its origin
    Show(Box<ShowArgs>),
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    serve: ServeArgs,
    #[command(flatten)]
    user: UserArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// The folder of a user's settings; `None` if the user has no home.
pub(crate) fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = named("XDG_CONFIG_HOME").or_else(|| named("HOME").map(|home| home.join(".config")))?;
    Some(base.join("sage"))
}

/// The values of the file.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    file: Option<PathBuf>,
    values: BTreeMap<String, Vec<String>>,
}

impl Settings {
    /// Reads the file, if there is one. A file in `SAGE_CONFIG` must exist.
    pub(crate) fn read(command: &Command) -> Result<Self, Failure> {
        let named = std::env::var_os("SAGE_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = match (&named, folder()) {
            (Some(path), _) => path.clone(),
            (None, Some(folder)) => folder.join("config.toml"),
            (None, None) => return Ok(Self::default()),
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(Failure::usage(
                    format!("{}: {error}", path.display()),
                    "repair the file or unset SAGE_CONFIG",
                ));
            }
        };
        Self::parse(&path, &text, &known(command))
    }

    fn parse(path: &Path, text: &str, known: &[String]) -> Result<Self, Failure> {
        let wrong = |what: String| {
            let names = known.join(", ");
            Failure::usage(format!("{}: {what}", path.display()), format!("the settings are: {names}"))
        };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        let mut values = BTreeMap::new();
        for (key, value) in table {
            if !known.contains(&key) {
                let names: Vec<&str> = known.iter().map(String::as_str).collect();
                let meant = nearest(&key, &names).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
                return Err(wrong(format!("there is no setting {}{meant}", quoted(&key))));
            }
            let one = |value: &toml::Value| match value {
                toml::Value::String(text) => Some(text.clone()),
                toml::Value::Integer(number) => Some(number.to_string()),
                toml::Value::Boolean(truth) => Some(truth.to_string()),
                toml::Value::Float(number) => Some(number.to_string()),
                _ => None,
            };
            let all = match &value {
                toml::Value::Array(list) => list.iter().map(one).collect::<Option<Vec<String>>>(),
                value => one(value).map(|value| vec![value]),
            };
            values.insert(
                key.clone(),
                all.ok_or_else(|| wrong(format!("{key} must be a text, a number, or a list of them")))?,
            );
        }
        Ok(Self { file: Some(path.to_owned()), values })
    }

    /// The command with the values of the file as defaults.
    pub(crate) fn applied(&self, command: Command) -> Command {
        let command = command.mut_args(|argument| self.with_default(argument));
        command.mut_subcommands(|command| self.applied(command))
    }

    fn with_default(&self, argument: Arg) -> Arg {
        let key = argument.get_long().filter(|_| argument.get_env().is_some());
        match key.and_then(|key| self.values.get(key)) {
            // The parser needs defaults that live as long as the program.
            Some(values) => argument.default_values(values.iter().map(|value| &*value.clone().leak())),
            None => argument,
        }
    }

    /// The origin of an argument's value.
    fn origin(&self, argument: &Arg, matches: &ArgMatches) -> String {
        let key = argument.get_long().unwrap_or_default();
        match matches.value_source(argument.get_id().as_str()) {
            Some(ValueSource::CommandLine) => format!("flag --{key}"),
            Some(ValueSource::EnvVariable) => {
                format!("environment {}", argument.get_env().unwrap_or_default().to_string_lossy())
            }
            Some(_) => match self.file.as_ref().filter(|_| self.values.contains_key(key)) {
                Some(file) => format!("file {}", file.display()),
                None => "built in".to_owned(),
            },
            None => "not set".to_owned(),
        }
    }
}

/// The settings: the long names of all flags that have an environment variable.
fn known(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter(|argument| argument.get_env().is_some());
    let mut names: Vec<String> = own.filter_map(|argument| argument.get_long().map(str::to_owned)).collect();
    names.extend(command.get_subcommands().flat_map(known));
    names.sort_unstable();
    names.dedup();
    names
}

/// Shows every setting of `sage config show` as it was parsed.
pub(crate) fn show(settings: &Settings, command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let path = ["config", "show"];
    let mut lines = Vec::new();
    let (mut command, mut matches) = (command, matches);
    for name in path {
        let below = command.find_subcommand(name).zip(matches.subcommand_matches(name));
        let Some((inner, found)) = below else { break };
        (command, matches) = (inner, found);
    }
    for argument in command.get_arguments().filter(|argument| argument.get_env().is_some()) {
        let raw = matches.try_get_raw(argument.get_id().as_str()).ok().flatten();
        let values: Vec<String> = raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect();
        let name = argument.get_long().unwrap_or_default().to_owned();
        lines.push((name, values.join(","), settings.origin(argument, matches)));
    }
    lines.sort_unstable();
    if matches.get_flag("json") {
        let object = |(setting, value, origin)| SettingValue { setting, value, origin };
        return print_json(&lines.into_iter().map(object).collect::<Vec<_>>());
    }
    let width = |part: fn(&(String, String, String)) -> &String| lines.iter().map(|line| part(line).len()).max();
    let (name, value) = (width(|line| &line.0).unwrap_or(0), width(|line| &line.1).unwrap_or(0));
    print(&lines.iter().map(|line| format!("{:name$}  {:value$}  {}\n", line.0, line.1, line.2)).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_only_known_settings() {
        let known = ["as".to_owned(), "dir".to_owned(), "heads".to_owned()];
        let parse = |text: &str| Settings::parse(Path::new("config.toml"), text, &known);
        let fine = parse("dir = \"/srv\"\nheads = [\"a\", \"b\"]\n").expect("settings");
        assert_eq!(fine.values["heads"], ["a", "b"]);
        for text in ["dirs = \"x\"", "dir = { a = 1 }", "dir", "dir = [[1]]"] {
            assert!(matches!(parse(text), Err(Failure::Usage { .. })), "{text}");
        }
        let Err(Failure::Usage { message, .. }) = parse("dirs = 1") else { panic!("a misspelt setting is accepted") };
        assert!(message.contains("did you mean dir?"), "{message}");
    }
}
