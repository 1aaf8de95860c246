//! From the text of a stream's file to a [`StreamFile`] that cannot contradict itself.

use std::collections::BTreeMap;

use sage_kernel::{Epsilon, Rate, Split};

use super::column::{Column, Kind, Outside};
use super::key::{BlockRule, PATH_VALUE_LIMIT, encoded};
use super::policy::PolicyFile;
use super::width::Width;
use super::{Answers, Census, Late, Role, StreamFile, Unit};
use crate::document::{self, DocumentError, NAME, Section, is_name, quoted};

/// More columns than any table has that a person declared.
const COLUMNS_LIMIT: usize = 10_000;

const TICK: &str = "a length of time in quotes such as \"5m\" or \"1h\", at least a minute and at most a day";
type Read<T> = Result<T, DocumentError>;

pub(super) fn stream(text: &str) -> Read<StreamFile> {
    document::parse(text, read_whole)
}

fn read_whole(whole: &Section<'_>) -> Read<StreamFile> {
    whole.only(&["stream", "policy", "access", "columns"])?;
    let section = whole.section("stream")?.ok_or_else(|| whole.missing("stream", "a table [stream]"))?;
    let declared = whole.section("policy")?.ok_or_else(|| whole.missing("policy", "a table [policy]"))?;
    let policy = PolicyFile::read(&declared)?;
    let access = read_access(whole)?;
    check_members(&declared, &policy, &access)?;
    let columns = read_columns(whole)?;
    let file = read_stream(&section, policy, access, columns)?;
    check_roles_of_columns(&section, &file)?;
    Ok(file)
}

fn read_stream(
    section: &Section<'_>, policy: PolicyFile, access: BTreeMap<Role, Vec<String>>, columns: Vec<Column>,
) -> Read<StreamFile> {
    section.only(&[
        "name",
        "unit",
        "user",
        "contribution",
        "time",
        "blocks",
        "late",
        "test_share",
        "census",
        "retention",
        "tick",
        "answers",
    ])?;
    let name = section.text("name", NAME)?;
    if !is_name(name) {
        return Err(section.wrong("name", NAME));
    }
    let unit = read_unit(section)?;
    let blocks = read_blocks(section)?;
    let late = section.choice(
        "late",
        &[("quarantine", Late::Quarantine), ("late-block", Late::LateBlock)],
        Some(Late::Quarantine),
    )?;
    if late == Late::LateBlock && matches!(unit, Unit::User { .. }) {
        let why = "\"quarantine\": with a late block, rows of one user in one window would lie in two blocks, \
                   each with the whole budget";
        return Err(section.wrong("late", why));
    }
    let retention = match section.optional_text("retention", Width::ALLOWED)? {
        Some(text) => Some(Width::parse(text).ok_or_else(|| section.wrong("retention", Width::ALLOWED))?),
        None => None,
    };
    let tick = match section.optional_text("tick", TICK)? {
        Some(text) => {
            let read = Width::parse(text).filter(|tick| *tick <= Width::DAY);
            Some(read.ok_or_else(|| section.wrong("tick", TICK))?)
        }
        None => None,
    };
    let column = |key: &str| section.optional_text(key, "the name of a column").map(|name| name.map(str::to_owned));
    Ok(StreamFile {
        name: name.to_owned(),
        unit,
        user: column("user")?,
        time: column("time")?,
        blocks,
        late,
        test_share: read_share(section)?,
        census: read_census(section)?,
        retention,
        tick,
        answers: section.choice("answers", &ANSWERS, Some(Answers::AtOnce))?,
        policy,
        access,
        columns,
    })
}

const ANSWERS: [(&str, Answers); 2] = [("at-once", Answers::AtOnce), ("at-interval", Answers::AtInterval)];

fn read_unit(section: &Section<'_>) -> Read<Unit> {
    const CONTRIBUTION: &str = "a whole number from 1 to 1000000: the most rows of a user that count in a block";
    if section.choice("unit", &[("event", false), ("user", true)], None)? {
        let most = section.whole_number("contribution", CONTRIBUTION)?;
        let most = u32::try_from(most).ok().filter(|most| (1..=1_000_000).contains(most));
        return most
            .map(|contribution| Unit::User { contribution })
            .ok_or_else(|| section.wrong("contribution", CONTRIBUTION));
    }
    if section.has("contribution") {
        return Err(section.wrong("contribution", "left out: with unit = \"event\" every row counts for itself"));
    }
    Ok(Unit::Event)
}

fn read_share(section: &Section<'_>) -> Read<Rate> {
    const SHARE: &str = "a decimal between zero and one, such as 0.1";
    let Some(text) = section.decimal("test_share", SHARE)? else {
        return Rate::from_units(Rate::LIMIT.units() / 10).ok_or_else(|| section.missing("test_share", SHARE));
    };
    let share = Rate::ceiling(&text).ok().filter(|&share| Split::new(share).is_some());
    share.ok_or_else(|| section.wrong("test_share", SHARE))
}

fn read_census(section: &Section<'_>) -> Read<Option<Census>> {
    const EPSILON: &str = "a decimal above zero in quotes: what counting may cost each lane of a block, in all";
    const HORIZON: &str =
        "a whole number from 1 to 1000000000: for how many blocks the running count is to be at its best";
    let Some(census) = section.section("census")? else { return Ok(None) };
    census.only(&["epsilon", "horizon"])?;
    let text = census.decimal("epsilon", EPSILON)?.ok_or_else(|| census.missing("epsilon", EPSILON))?;
    let epsilon = Epsilon::ceiling(&text).ok().filter(|&epsilon| epsilon.units() >= 1_000_000);
    let horizon = u32::try_from(census.whole_number("horizon", HORIZON)?).ok();
    let horizon = horizon.filter(|horizon| (1..=1_000_000_000).contains(horizon));
    Ok(Some(Census {
        epsilon: epsilon.ok_or_else(|| census.wrong("epsilon", EPSILON))?,
        horizon: horizon.ok_or_else(|| census.wrong("horizon", HORIZON))?,
    }))
}

fn read_blocks(section: &Section<'_>) -> Read<BlockRule> {
    const BLOCKS: &str = "a table with one or more of time = \"1h\", user_range = 1000, attribute = \"country\"";
    let blocks = section.section("blocks")?.ok_or_else(|| section.missing("blocks", BLOCKS))?;
    blocks.only(&["time", "user_range", "attribute"])?;
    let time = match blocks.optional_text("time", Width::ALLOWED)? {
        Some(text) => Some(Width::parse(text).ok_or_else(|| blocks.wrong("time", Width::ALLOWED))?),
        None => None,
    };
    const RANGE: &str = "a whole number from 1 to 1000000000: how many users a block has";
    let user_range = match blocks.has("user_range") {
        true => {
            let range = u32::try_from(blocks.whole_number("user_range", RANGE)?).ok();
            let range = range.filter(|range| (1..=1_000_000_000).contains(range));
            Some(range.ok_or_else(|| blocks.wrong("user_range", RANGE))?)
        }
        false => None,
    };
    let attribute = blocks.optional_text("attribute", "the name of a category column")?.map(str::to_owned);
    let rule = BlockRule { user_range, time, attribute };
    if rule.levels() == 0 { Err(section.wrong("blocks", BLOCKS)) } else { Ok(rule) }
}

fn read_access(whole: &Section<'_>) -> Read<BTreeMap<Role, Vec<String>>> {
    let mut access = BTreeMap::new();
    let Some(section) = whole.section("access")? else { return Ok(access) };
    section.only(&Role::ALL.map(|(name, _)| name))?;
    for (name, role) in Role::ALL {
        const PRINCIPALS: &str = "a list of names, such as [\"ada\"]";
        if let Some(principals) = section.texts(name, PRINCIPALS)? {
            if principals.is_empty() || principals.iter().any(String::is_empty) {
                return Err(section.wrong(name, PRINCIPALS));
            }
            access.insert(role, principals);
        }
    }
    Ok(access)
}

/// A member who is no ML engineer could not spend, and is a slip.
fn check_members(section: &Section<'_>, policy: &PolicyFile, access: &BTreeMap<Role, Vec<String>>) -> Read<()> {
    let engineers = access.get(&Role::MlEngineer).map_or(&[][..], Vec::as_slice);
    match policy.named().into_iter().find(|member| !engineers.iter().any(|engineer| engineer == member)) {
        None => Ok(()),
        Some(member) => {
            let allowed =
                format!("a list whose `members` are ML engineers under [access], as {} is not", quoted(member));
            Err(section.wrong("contexts", allowed))
        }
    }
}

fn read_columns(whole: &Section<'_>) -> Read<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for section in whole.sections("columns")? {
        let column = Column::read(&section)?;
        if !names.insert(column.name.clone()) {
            return Err(section.wrong("name", "a name that no other column has"));
        }
        columns.push(column);
    }
    if columns.is_empty() {
        return Err(whole.missing("columns", "a table [[columns]] for each column, with its bounds"));
    }
    if columns.len() > COLUMNS_LIMIT {
        return Err(whole.wrong("columns", "at most 10000 columns"));
    }
    Ok(columns)
}

/// The columns that the stream's own keys name are there, and are of a kind that can do their work.
fn check_roles_of_columns(section: &Section<'_>, file: &StreamFile) -> Read<()> {
    let found = |name: &Option<String>| name.as_ref().and_then(|name| file.column(name)).map(|(_, column)| column);
    let time = found(&file.time);
    if file.time.is_some() && !time.is_some_and(|column| matches!(column.kind, Kind::Time { .. }) && !column.nullable) {
        return Err(section.wrong("time", "the name of one of [[columns]] of type \"time\" that is not nullable"));
    }
    if file.blocks.time.is_some() && file.time.is_none() {
        return Err(section.missing("time", "the name of the column that holds the time, for the blocks"));
    }
    if file.user.is_none() && (file.unit != Unit::Event || file.blocks.user_range.is_some()) {
        return Err(section.missing("user", "the name of the column that says whose row it is"));
    }
    if let Some(name) = &file.user {
        check_user(section, file, file.column(name).map(|(_, column)| column))?;
    }
    if file.blocks.attribute.is_some() {
        check_attribute(section, found(&file.blocks.attribute))?;
    }
    Ok(())
}

/// A user is never made into another one by a bound, and ranges count up from zero.
fn check_user(section: &Section<'_>, file: &StreamFile, column: Option<&Column>) -> Read<()> {
    let ranges = file.blocks.user_range.is_some();
    let fits = column.filter(|column| !column.nullable).is_some_and(|column| match &column.kind {
        Kind::Integer { min, outside, .. } => *outside == Outside::Drop && (*min >= 0 || !ranges),
        Kind::Text { .. } => !ranges,
        _ => false,
    });
    if fits {
        return Ok(());
    }
    let allowed = if ranges {
        "the name of one of [[columns]] of type \"integer\" with min = 0 or more and outside = \"drop\", not nullable"
    } else {
        "the name of one of [[columns]] of type \"text\", or \"integer\" with outside = \"drop\", not nullable"
    };
    Err(section.wrong("user", allowed))
}

/// The values of a public attribute are a list that was written down before: then which blocks there can be
/// is public too.
fn check_attribute(section: &Section<'_>, column: Option<&Column>) -> Read<()> {
    let short = |categories: &[String]| categories.iter().all(|category| encoded(category).len() <= PATH_VALUE_LIMIT);
    let name_fits = |column: &Column| {
        let plain = column.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        plain && !["users", "hour", "day", "time", "late"].contains(&column.name.as_str())
    };
    let fits = column.is_some_and(|column| match &column.kind {
        Kind::Category { categories, .. } => !column.nullable && short(categories) && name_fits(column),
        _ => false,
    });
    let allowed = "a table whose attribute is the name of one of [[columns]] of type \"category\", not nullable, \
                   with categories of at most 180 bytes as a folder's name; its own name holds letters, digits, \
                   `_` and `-` alone and is none of users, hour, day, time, late";
    if fits { Ok(()) } else { Err(section.wrong("blocks", allowed)) }
}
