//! The canonical text of a stream's file, as it is stored in the log.

use super::column::{ALL_TIME, Column, Kind, Outside, UnknownCategory};
use super::key::format_time;
use super::{Census, Disclosure, LateRows, Role, StreamFile, Unit};
use crate::document::{list, quoted};

pub(super) fn write_stream(file: &StreamFile) -> String {
    let mut out = format!("[stream]\nname = {}\n", quoted(&file.name));
    match file.unit {
        Unit::Event => out.push_str("unit = \"event\"\n"),
        Unit::User { contribution } => out.push_str(&format!("unit = \"user\"\ncontribution = {contribution}\n")),
    }
    for (key, column) in [("user", &file.user), ("time", &file.time)] {
        if let Some(column) = column {
            out.push_str(&format!("{key} = {}\n", quoted(column)));
        }
    }
    let mut levels = Vec::new();
    levels.extend(file.blocks.user_range.map(|range| format!("user_range = {range}")));
    levels.extend(file.blocks.time.map(|width| format!("time = \"{width}\"")));
    levels.extend(file.blocks.attribute.as_ref().map(|column| format!("attribute = {}", quoted(column))));
    out.push_str(&format!("blocks = {{ {} }}\n", levels.join(", ")));
    out.push_str(match file.late {
        LateRows::Quarantine => "late = \"quarantine\"\n",
        LateRows::LateBlock => "late = \"late-block\"\n",
    });
    out.push_str(&format!("test_share = \"{}\"\n", file.test_share));
    if let Some(Census { epsilon, horizon }) = file.census {
        out.push_str(&format!("census = {{ epsilon = \"{epsilon}\", horizon = {horizon} }}\n"));
    }
    if let Some(retention) = file.retention {
        out.push_str(&format!("retention = \"{retention}\"\n"));
    }
    if let Some(interval) = file.disclosure_interval {
        out.push_str(&format!("disclosure_interval = \"{interval}\"\n"));
    }
    if file.answers == Disclosure::AtInterval {
        out.push_str("answers = \"at-interval\"\n");
    }
    file.policy.write(&mut out);
    if !file.access.is_empty() {
        out.push_str("\n[access]\n");
        for (name, role) in Role::ALL {
            if let Some(principals) = file.access.get(&role) {
                out.push_str(&format!("{name} = {}\n", list(principals)));
            }
        }
    }
    for column in &file.columns {
        write_column(column, &mut out);
    }
    out
}

fn write_column(column: &Column, out: &mut String) {
    let outside = |outside: Outside| match outside {
        Outside::Clamp => "clamp",
        Outside::Drop => "drop",
    };
    out.push_str(&format!("\n[[columns]]\nname = {}\n", quoted(&column.name)));
    let kind = match &column.kind {
        // `Debug` formats a float with the fewest digits that parse back to it, with a point or an exponent.
        Kind::Number { min, max, outside: rule } => {
            format!("type = \"number\"\nmin = {min:?}\nmax = {max:?}\noutside = \"{}\"\n", outside(*rule))
        }
        Kind::Integer { min, max, outside: rule } => {
            format!("type = \"integer\"\nmin = {min}\nmax = {max}\noutside = \"{}\"\n", outside(*rule))
        }
        Kind::Boolean => "type = \"boolean\"\n".to_owned(),
        Kind::Time { span } => {
            let mut text = "type = \"time\"\n".to_owned();
            for (key, bound, all) in [("min", span.0, ALL_TIME.0), ("max", span.1, ALL_TIME.1)] {
                if bound != all {
                    text.push_str(&format!("{key} = \"{}\"\n", format_time(bound)));
                }
            }
            text
        }
        Kind::Category { categories, other } => {
            let other = match other {
                UnknownCategory::Drop => "drop",
                UnknownCategory::Category(category) => category,
            };
            format!("type = \"category\"\ncategories = {}\nother = {}\n", list(categories), quoted(other))
        }
        Kind::Hashed => "type = \"hashed\"\n".to_owned(),
        Kind::Text { longest } => format!("type = \"text\"\nlongest = {longest}\n"),
    };
    out.push_str(&kind);
    if column.nullable {
        out.push_str("nullable = true\n");
    }
}
