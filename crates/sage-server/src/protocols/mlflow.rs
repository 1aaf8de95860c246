//! MLflow's read routes: its clients can list releases, find one by alias and load it, as from an MLflow registry.
//!
//! There are no write routes: models are released only by an accepted pipeline.

use sage_engine::ReleaseView;
use sage_engine::release::Receipt;

use crate::call::{Call, Reply};
use crate::problem::Problem;
use crate::views::mlflow::{
    Alias, Artifact, ArtifactAddress, ArtifactList, ModelReply, ModelVersion, ModelsPage, RegisteredModel, Tag,
    VersionReply, VersionsPage,
};
use crate::views::releases::file_text;

fn parameter<'call>(call: &'call Call<'_>, name: &str) -> Result<&'call str, Problem> {
    call.query_value(name).ok_or_else(|| Problem::wrong(format!("the parameter {name} is missing")))
}

/// All releases that are not withdrawn, by name and version.
fn available(call: &Call<'_>) -> Vec<ReleaseView> {
    call.releases().into_iter().filter(|release| release.withdrawn.is_none()).collect()
}

/// A version as MLflow describes it.
fn version(call: &Call<'_>, release: &ReleaseView) -> Result<ModelVersion, Problem> {
    let files = call.engine().release_files(release)?;
    let receipt: Option<Receipt> = serde_json::from_str(&file_text(&files, "receipt.json")).ok();
    let blocks = receipt.as_ref().map_or_else(String::new, |receipt| receipt.blocks.join(", "));
    let mut tags = vec![
        tag("sage.release", &release.digest),
        tag("sage.stream", &release.stream),
        tag("sage.blocks", &blocks),
        tag("sage.outcome", "accept"),
    ];
    if let Some(receipt) = &receipt {
        tags.extend([tag("sage.delta", &receipt.delta), tag("sage.access_mode", &receipt.access_mode)]);
        tags.extend(receipt.validator.as_ref().map(|validator| tag("sage.validator", validator)));
        tags.extend(receipt.confidence.as_ref().map(|confidence| tag("sage.confidence", confidence)));
        let lanes = ["sage.epsilon.train", "sage.epsilon.test"].into_iter().zip(&receipt.epsilon);
        tags.extend(lanes.map(|(name, loss)| tag(name, loss)));
    }
    Ok(ModelVersion {
        aliases: release.aliases.clone(),
        creation_timestamp: 0,
        current_stage: "None".to_owned(),
        description: String::new(),
        last_updated_timestamp: 0,
        name: release.name.clone(),
        run_id: String::new(),
        run_link: String::new(),
        source: source(release),
        status: "READY".to_owned(),
        tags,
        version: release.version.to_string(),
    })
}

fn tag(key: &str, value: &str) -> Tag {
    Tag { key: key.to_owned(), value: value.to_owned() }
}

fn source(release: &ReleaseView) -> String {
    format!("mlflow-artifacts:/{}/{}", release.name, release.version)
}

/// A name with its newest version.
fn registered(call: &Call<'_>, all: &[ReleaseView], name: &str) -> Result<RegisteredModel, Problem> {
    let own: Vec<&ReleaseView> = all.iter().filter(|release| release.name == name).collect();
    let newest = own.last().ok_or_else(|| Problem::missing(format!("there is no registered model {name:?}")))?;
    let aliases = own.iter().flat_map(|release| {
        let version = release.version.to_string();
        release.aliases.iter().map(move |alias| Alias { alias: alias.clone(), version: version.clone() })
    });
    Ok(RegisteredModel {
        aliases: aliases.collect(),
        creation_timestamp: 0,
        last_updated_timestamp: 0,
        latest_versions: vec![version(call, newest)?],
        name: name.to_owned(),
        tags: Vec::new(),
    })
}

pub(crate) fn by_alias(call: &Call<'_>) -> Result<Reply, Problem> {
    let text = format!("{}@{}", parameter(call, "name")?, parameter(call, "alias")?);
    let release = call.release_named(&text)?;
    Ok(Reply::json(&VersionReply { model_version: version(call, &release)? }))
}

pub(crate) fn get_model(call: &Call<'_>) -> Result<Reply, Problem> {
    let registered_model = registered(call, &available(call), parameter(call, "name")?)?;
    Ok(Reply::json(&ModelReply { registered_model }))
}

/// All names. Only filters for an exact name are supported. The filter that clients always send, which excludes
/// prompts, is ignored because there are none.
pub(crate) fn search_models(call: &Call<'_>) -> Result<Reply, Problem> {
    let all = available(call);
    let mut names: Vec<String> = all.iter().map(|release| release.name.clone()).collect();
    names.dedup();
    if let Some(name) = call.query_value("filter").and_then(named) {
        names.retain(|one| *one == name);
    }
    let (page, next_page_token) = page(call, &names)?;
    let registered_models = page.iter().map(|name| registered(call, &all, name)).collect::<Result<_, _>>()?;
    Ok(Reply::json(&ModelsPage { next_page_token, registered_models }))
}

pub(crate) fn search_versions(call: &Call<'_>) -> Result<Reply, Problem> {
    let mut all = available(call);
    if let Some(name) = call.query_value("filter").and_then(named) {
        all.retain(|release| release.name == name);
    }
    let (page, next_page_token) = page(call, &all)?;
    let model_versions = page.iter().map(|release| version(call, release)).collect::<Result<_, _>>()?;
    Ok(Reply::json(&VersionsPage { model_versions, next_page_token }))
}

/// The name in a filter such as `name='taxi-duration'`.
fn named(filter: &str) -> Option<String> {
    let rest = filter.trim().strip_prefix("name")?.trim_start().strip_prefix('=')?.trim();
    let quote = rest.chars().next().filter(|character| matches!(character, '\'' | '"'))?;
    Some(rest[1..].split(quote).next()?.to_owned())
}

fn page<'list, T>(call: &Call<'_>, all: &'list [T]) -> Result<(&'list [T], String), Problem> {
    let number = |name: &str, otherwise: usize| match call.query_value(name).filter(|text| !text.is_empty()) {
        None => Ok(otherwise),
        Some(text) => text.parse::<usize>().map_err(|_| Problem::wrong(format!("{name} is a whole number"))),
    };
    let (start, most) = (number("page_token", 0)?.min(all.len()), number("max_results", 100)?.clamp(1, 1000));
    let end = start.saturating_add(most).min(all.len());
    let next = if end < all.len() { end.to_string() } else { String::new() };
    Ok((&all[start..end], next))
}

fn versioned(call: &Call<'_>) -> Result<ReleaseView, Problem> {
    let text = format!("{}@{}", parameter(call, "name")?, parameter(call, "version")?);
    call.release_named(&text)
}

pub(crate) fn get_version(call: &Call<'_>) -> Result<Reply, Problem> {
    Ok(Reply::json(&VersionReply { model_version: version(call, &versioned(call)?)? }))
}

pub(crate) fn download_address(call: &Call<'_>) -> Result<Reply, Problem> {
    Ok(Reply::json(&ArtifactAddress { artifact_uri: source(&versioned(call)?) }))
}

/// The release and the rest of a path such as `taxi-duration/3/features`.
fn located(call: &Call<'_>, path: &str) -> Result<(ReleaseView, String), Problem> {
    let missing = || Problem::missing("there is no such artefact");
    let mut parts = path.trim_matches('/').splitn(3, '/');
    let (name, version) = parts.next().zip(parts.next()).ok_or_else(missing)?;
    let release = call.release_named(&format!("{name}@{version}"))?;
    Ok((release, parts.next().unwrap_or_default().to_owned()))
}

/// The files in a folder of a release; empty if there is no such folder.
pub(crate) fn list_files(call: &Call<'_>) -> Result<Reply, Problem> {
    let (release, folder) = located(call, call.query_value("path").unwrap_or_default())?;
    let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut listed = std::collections::BTreeMap::new();
    for (name, bytes) in call.engine().release_files(&release)? {
        let Some(rest) = name.strip_prefix(&start) else { continue };
        let (path, file_size) = match rest.split_once('/') {
            Some((folder, _)) => (folder.to_owned(), None),
            None => (rest.to_owned(), Some(bytes.len() as u64)),
        };
        listed.insert(path.clone(), Artifact { file_size, is_dir: file_size.is_none(), path });
    }
    Ok(Reply::json(&ArtifactList { files: listed.into_values().collect() }))
}

pub(crate) fn file(call: &Call<'_>) -> Result<Reply, Problem> {
    let (release, path) = located(call, call.part("path"))?;
    let mut files = call.engine().release_files(&release)?.into_iter();
    let (_, bytes) =
        files.find(|(name, _)| *name == path).ok_or_else(|| Problem::missing("there is no such artefact"))?;
    Ok(Reply::new("application/octet-stream", bytes))
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn the_filters_that_clients_send_are_understood() {
        for (filter, name) in [
            ("name='taxi-duration'", Some("taxi-duration")),
            ("name = \"a b\" AND x", Some("a b")),
            ("tag.`mlflow.prompt.is_prompt` != 'true'", None),
            ("name LIKE 'x%'", None),
            ("", None),
        ] {
            assert_eq!(named(filter).as_deref(), name, "{filter}");
        }
    }
}
