//! Releases: listed, aliased, withdrawn, loaded.

use std::sync::Arc;

use bytes::Bytes;
use sage_model::bundle::Predictor;

use crate::api::policy::{found, in_role};
use crate::api::{Engine, EngineError, Principal, lock, note};
use crate::catalog::{Catalog, Note, ReleaseRecord};
use crate::pipeline::{Statistic, Train};
use crate::plan::{Table, Tables};
use crate::release::Kind;
use crate::run::ReleasedStatistic;
use crate::stream::Role;

/// A version of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseView {
    /// Its name, which is that of the pipeline.
    pub name: String,
    /// Its version, counted from one.
    pub version: u32,
    /// The kind of release.
    pub kind: Kind,
    /// The stream.
    pub stream: String,
    /// The run that released it.
    pub run: u64,
    /// The digest of its files.
    pub digest: String,
    /// The aliases of this version.
    pub aliases: Vec<String>,
    /// Why it was withdrawn, if it was.
    pub withdrawn: Option<String>,
    /// The run with which its alarm began: a later test of this model did not pass, and none passed since.
    pub failing: Option<u64>,
}

impl Engine {
    /// All releases, by name and version.
    pub fn releases(&self) -> Vec<ReleaseView> {
        let catalog = self.catalog();
        catalog.history().releases().map(|(name, version, one)| view(&catalog, name, version, one)).collect()
    }

    /// The release with the name `name`, `name@3`, `name@champion` or `name@latest`.
    ///
    /// # Errors
    /// When there is none, or it was withdrawn.
    pub fn release_named(&self, text: &str) -> Result<ReleaseView, EngineError> {
        let catalog = self.catalog();
        let missing = || EngineError::NoRelease(text.to_owned());
        let (name, which) = text.split_once('@').unwrap_or((text, "latest"));
        let version = which.parse().ok().or_else(|| catalog.history().alias(name, which)).ok_or_else(missing)?;
        let one = catalog.history().release(name, version).ok_or_else(missing)?;
        match &one.withdrawn {
            Some(reason) => Err(EngineError::Withdrawn(text.to_owned(), reason.clone())),
            None => Ok(view(&catalog, name, version, one)),
        }
    }

    /// As [`Engine::releases`], for a caller who may see only some of them. An alias that was moved to a hidden version
    /// stays with the previous visible one.
    pub fn releases_shown(&self, shown: &Shown<'_>) -> Vec<ReleaseView> {
        let catalog = self.catalog();
        let all = catalog.history().releases().map(|(name, version, one)| view(&catalog, name, version, one));
        let mut seen: Vec<ReleaseView> = all.filter(|release| shown(release)).collect();
        for release in &mut seen {
            rename(&catalog, release, shown);
        }
        seen
    }

    /// As [`Engine::release_named`], for a caller who may see only some releases; hidden ones do not exist for them.
    ///
    /// # Errors
    /// When there is none, or it was withdrawn.
    pub fn release_shown(&self, text: &str, shown: &Shown<'_>) -> Result<ReleaseView, EngineError> {
        let catalog = self.catalog();
        let missing = || EngineError::NoRelease(text.to_owned());
        let (name, which) = text.split_once('@').unwrap_or((text, "latest"));
        let seen = |version: u32| shown_version(&catalog, name, version, shown);
        let version = which.parse().ok().or_else(|| catalog.history().alias_among(name, which, &seen));
        let version = version.filter(|version| seen(*version)).ok_or_else(missing)?;
        let one = catalog.history().release(name, version).ok_or_else(missing)?;
        if let Some(reason) = &one.withdrawn {
            return Err(EngineError::Withdrawn(text.to_owned(), reason.clone()));
        }
        let mut found = view(&catalog, name, version, one);
        rename(&catalog, &mut found, shown);
        Ok(found)
    }

    /// The files of a release, after their digest was verified.
    ///
    /// # Errors
    /// When a file cannot be read, or the digest differs.
    pub fn release_files(&self, release: &ReleaseView) -> Result<Vec<(String, Bytes)>, EngineError> {
        let files = self.artifacts.files(&release.digest).map_err(crate::release::ArtifactStoreError::from)?;
        match release.kind {
            Kind::Model => drop(self.artifacts.model(&release.digest)?),
            Kind::Statistic => drop(self.artifacts.statistic(&release.digest)?),
        }
        Ok(files)
    }

    /// A released model, ready for prediction.
    ///
    /// # Errors
    /// When the release is not a model, or its digest differs.
    pub fn predictor(&self, release: &ReleaseView) -> Result<Arc<Predictor>, EngineError> {
        if release.kind != Kind::Model {
            return Err(EngineError::NoRelease(format!("{} (it is a statistic)", release.name)));
        }
        if let Some(ready) = lock(&self.predictors).get(&release.digest) {
            return Ok(Arc::clone(ready));
        }
        let bundle = self.artifacts.model(&release.digest)?;
        let ready = Arc::new(Predictor::new(bundle.graph())?);
        lock(&self.predictors).insert(release.digest.clone(), Arc::clone(&ready));
        Ok(ready)
    }

    /// A released statistic.
    ///
    /// # Errors
    /// When the release is not a statistic, or its digest differs.
    pub fn statistic(&self, release: &ReleaseView) -> Result<ReleasedStatistic, EngineError> {
        match release.kind {
            Kind::Statistic => Ok(self.artifacts.statistic(&release.digest)?),
            Kind::Model => Err(EngineError::NoRelease(format!("{} (it is a model)", release.name))),
        }
    }

    /// Gives a version an alias, which is removed from any other version.
    ///
    /// # Errors
    /// When there is no such release, or the principal is not an ML engineer of its stream.
    pub fn move_alias(&self, by: &Principal, release: &ReleaseView, alias: &str) -> Result<(), EngineError> {
        let fine =
            !alias.is_empty() && alias.len() <= 64 && alias.chars().all(|sign| sign.is_alphanumeric() || sign == '-');
        // A number is a version, and `latest` is computed.
        if !fine || alias == "latest" || alias.parse::<u32>().is_ok() {
            return Err(EngineError::Alias(alias.to_owned()));
        }
        let (name, version, by_name) = (release.name.clone(), release.version, by.name().to_owned());
        let moved = Note::AliasMoved { release: name, alias: alias.to_owned(), version, by: by_name };
        self.as_engineer(by, (&release.name, &release.stream), &moved)
    }

    /// Withdraws a version. Its cost stays spent, and existing copies remain in use.
    ///
    /// # Errors
    /// When there is no such release, or the principal is not an ML engineer of its stream.
    pub fn withdraw(&self, by: &Principal, release: &ReleaseView, reason: &str) -> Result<(), EngineError> {
        let (name, version, by_name) = (release.name.clone(), release.version, by.name().to_owned());
        let withdrawn = Note::ReleaseWithdrawn { release: name, version, by: by_name, reason: reason.to_owned() };
        self.as_engineer(by, (&release.name, &release.stream), &withdrawn)
    }

    fn as_engineer(&self, by: &Principal, (name, stream): (&str, &str), record: &Note) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            // A log of an earlier version may contain a name with versions of two streams: the owner of the name
            // decides.
            let owner = catalog.history().owner(name).unwrap_or(stream);
            let (_, known) = found(gate, catalog, owner)?;
            in_role(known, by, Role::MlEngineer)?;
            Ok(note(gate, catalog, record)?)
        })
    }
}

/// Decides which releases a caller may see.
pub type Shown<'a> = dyn Fn(&ReleaseView) -> bool + 'a;

fn shown_version(catalog: &Catalog, name: &str, version: u32, shown: &Shown<'_>) -> bool {
    catalog.history().release(name, version).is_some_and(|one| shown(&view(catalog, name, version, one)))
}

/// Replaces the aliases of a release by those that are visible to the caller.
fn rename(catalog: &Catalog, release: &mut ReleaseView, shown: &Shown<'_>) {
    let seen = |version: u32| shown_version(catalog, &release.name, version, shown);
    release.aliases = catalog.history().aliases_among(&release.name, release.version, &seen);
}

/// The released tables that a caller may see.
pub(crate) struct ShownTables<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) shown: &'a Shown<'a>,
}

impl Tables for ShownTables<'_> {
    fn table(&self, release: &str) -> Option<Table> {
        self.engine.release_shown(release, self.shown).ok()?;
        self.engine.table(release)
    }
}

impl Tables for Engine {
    fn table(&self, release: &str) -> Option<Table> {
        let release = self.release_named(release).ok()?;
        let catalog = self.catalog();
        let Train::Statistic(Statistic::GroupMean { keys, bounds, .. }) =
            &catalog.history().run(release.run)?.pipeline.train
        else {
            return None;
        };
        let lines = self.statistic(&release).ok()?.lines;
        let values: Vec<Option<f64>> = lines.iter().map(|line| line.value).collect();
        let whole = values.len() == keys.count() as usize;
        whole.then(|| Table { keys: keys.clone(), bounds: *bounds, values })
    }
}

fn view(catalog: &Catalog, name: &str, version: u32, one: &ReleaseRecord) -> ReleaseView {
    ReleaseView {
        name: name.to_owned(),
        version,
        kind: one.kind,
        stream: catalog.history().run(one.run).map(|run| run.pipeline.stream.clone()).unwrap_or_default(),
        run: one.run,
        digest: one.digest.clone(),
        aliases: catalog.history().aliases(name, version),
        withdrawn: one.withdrawn.clone(),
        failing: one.failing,
    }
}
