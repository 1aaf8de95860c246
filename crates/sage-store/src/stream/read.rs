//! Parsing of a stream's file into a consistent [`StreamFile`].

use std::collections::BTreeMap;

use sage_kernel::{Epsilon, Rate, Split};

use super::column::{Column, Kind, Outside};
use super::key::{BlockRule, PATH_VALUE_LIMIT, encoded};
use super::policy::PolicyFile;
use super::width::Width;
use super::{Census, Disclosure, LateRows, Role, StreamFile, Unit};
use crate::document::{self, DocumentError, NAME, Section, is_name, quoted};

/// The most columns of a stream.
const COLUMNS_LIMIT: usize = 10_000;

const INTERVAL: &str = "a length of time in quotes such as \"5m\" or \"1h\", at least a minute and at most a day";
/// The key of the disclosure interval in files of earlier releases.
const FORMER_INTERVAL: &str = "tick";
/// The keys of `[stream]`. Messages name the former key, the last one, only where a file has it.
const KEYS: [&str; 13] = [
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
    "disclosure_interval",
    "answers",
    FORMER_INTERVAL,
];
type Read<T> = Result<T, DocumentError>;

pub(super) fn read_stream(text: &str) -> Read<StreamFile> {
    document::parse(text, read_root)
}

fn read_root(root: &Section<'_>) -> Read<StreamFile> {
    root.only(&["stream", "policy", "access", "columns"])?;
    let section = root.section("stream")?.ok_or_else(|| root.missing("stream", "a table [stream]"))?;
    let declared = root.section("policy")?.ok_or_else(|| root.missing("policy", "a table [policy]"))?;
    let policy = PolicyFile::read(&declared)?;
    let access = read_access(root)?;
    check_members(&declared, &policy, &access)?;
    let columns = read_columns(root)?;
    let file = read_stream_table(&section, policy, access, columns)?;
    check_key_columns(&section, &file)?;
    Ok(file)
}

fn read_stream_table(
    section: &Section<'_>, policy: PolicyFile, access: BTreeMap<Role, Vec<String>>, columns: Vec<Column>,
) -> Read<StreamFile> {
    let former = section.has(FORMER_INTERVAL);
    section.only(if former { &KEYS } else { &KEYS[..12] })?;
    let name = section.text("name", NAME)?;
    if !is_name(name) {
        return Err(section.wrong("name", NAME));
    }
    let unit = read_unit(section)?;
    let blocks = read_blocks(section)?;
    let late = section.choice(
        "late",
        &[("quarantine", LateRows::Quarantine), ("late-block", LateRows::LateBlock)],
        Some(LateRows::Quarantine),
    )?;
    if late == LateRows::LateBlock && matches!(unit, Unit::User { .. }) {
        let why = "\"quarantine\": with a late block, rows of one user in one window would lie in two blocks, \
                   each with the whole budget";
        return Err(section.wrong("late", why));
    }
    let retention = match section.optional_text("retention", Width::ALLOWED)? {
        Some(text) => Some(Width::parse(text).ok_or_else(|| section.wrong("retention", Width::ALLOWED))?),
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
        disclosure_interval: read_interval(section)?,
        answers: section.choice("answers", &DISCLOSURES, Some(Disclosure::AtOnce))?,
        policy,
        access,
        columns,
    })
}

const DISCLOSURES: [(&str, Disclosure); 2] = [("at-once", Disclosure::AtOnce), ("at-interval", Disclosure::AtInterval)];

/// Reads the disclosure interval, also under the key that earlier releases used. The texts of stream files in old logs
/// have it.
fn read_interval(section: &Section<'_>) -> Read<Option<Width>> {
    let key = match (section.has("disclosure_interval"), section.has(FORMER_INTERVAL)) {
        (true, true) => {
            return Err(section.wrong(FORMER_INTERVAL, "left out: it is the former name of `disclosure_interval`"));
        }
        (false, true) => FORMER_INTERVAL,
        (_, false) => "disclosure_interval",
    };
    let Some(text) = section.optional_text(key, INTERVAL)? else { return Ok(None) };
    let interval = Width::parse(text).filter(|interval| *interval <= Width::DAY);
    interval.map(Some).ok_or_else(|| section.wrong(key, INTERVAL))
}

fn read_unit(section: &Section<'_>) -> Read<Unit> {
    const CONTRIBUTION: &str = "a whole number from 1 to 1000000: the most rows per user that count in a block";
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
    const EPSILON: &str = "a decimal above zero in quotes: the total cost of counting for each lane of a block";
    const HORIZON: &str =
        "a whole number from 1 to 1000000000: the number of blocks for which the running count is most accurate";
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
    const RANGE: &str = "a whole number from 1 to 1000000000: the number of users in a block";
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

/// Checks that every member of a context is an ML engineer, since nobody else can spend.
fn check_members(section: &Section<'_>, policy: &PolicyFile, access: &BTreeMap<Role, Vec<String>>) -> Read<()> {
    let engineers = access.get(&Role::MlEngineer).map_or(&[][..], Vec::as_slice);
    match policy.all_members().into_iter().find(|member| !engineers.iter().any(|engineer| engineer == member)) {
        None => Ok(()),
        Some(member) => {
            let allowed = format!("a list whose `members` are ML engineers under [access]; {} is not", quoted(member));
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

/// Checks that the columns which `[stream]` names exist and have suitable types.
fn check_key_columns(section: &Section<'_>, file: &StreamFile) -> Read<()> {
    let found = |name: &Option<String>| name.as_ref().and_then(|name| file.column(name)).map(|(_, column)| column);
    let time = found(&file.time);
    if file.time.is_some() && !time.is_some_and(|column| matches!(column.kind, Kind::Time { .. }) && !column.nullable) {
        return Err(section.wrong("time", "the name of one of [[columns]] of type \"time\" that is not nullable"));
    }
    if file.blocks.time.is_some() && file.time.is_none() {
        return Err(section.missing("time", "the name of the column with the time, which determines the blocks"));
    }
    if file.user.is_none() && (file.unit != Unit::Event || file.blocks.user_range.is_some()) {
        return Err(section.missing("user", "the name of the column with the user of each row"));
    }
    if let Some(name) = &file.user {
        check_user(section, file, file.column(name).map(|(_, column)| column))?;
    }
    if file.blocks.attribute.is_some() {
        check_attribute(section, found(&file.blocks.attribute))?;
    }
    Ok(())
}

/// Checks the user column. It must not be clamped, which would turn one user into another, and with user ranges its
/// numbers start at zero or above.
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

/// Checks the attribute column. Its categories are declared in the file, so the set of possible blocks is public.
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
                   with categories of at most 180 bytes when percent-encoded; the column's name has only letters, \
                   digits, `_` and `-` and is none of users, hour, day, time, late";
    if fits { Ok(()) } else { Err(section.wrong("blocks", allowed)) }
}
