//! The keys of `[train]`, as a learner parses them.

use crate::document::{Section, Shape};
use crate::pipeline::{PipelineFileError, read_count, read_number};

/// The keys of `[train]`, or of a table in it. Errors name the line, the key and the allowed values.
pub struct TrainKeys<'file>(Section<'file>);

impl<'file> TrainKeys<'file> {
    pub(crate) const fn new(section: Section<'file>) -> Self {
        Self(section)
    }

    /// Whether the key is present.
    pub fn has(&self, key: &str) -> bool {
        self.0.has(key)
    }

    /// One of these words, or the default if the key is absent.
    ///
    /// # Errors
    /// If the value is another one, or the key is absent and has no default.
    pub fn choice<T: Copy>(
        &self, key: &str, words: &[(&'static str, T)], default: Option<T>,
    ) -> Result<T, PipelineFileError> {
        self.0.choice(key, words, default)
    }

    /// A finite number that satisfies `fits`, or the default if the key is absent.
    ///
    /// # Errors
    /// If the value is not such a number, or the key is absent and has no default.
    pub fn number(
        &self, key: &str, allowed: &str, default: Option<f64>, fits: impl Fn(f64) -> bool,
    ) -> Result<f64, PipelineFileError> {
        read_number(&self.0, key, allowed, default, fits)
    }

    /// A whole number from 1 to `most`.
    ///
    /// # Errors
    /// If the value is not such a number, or the key is absent.
    pub fn count(&self, key: &str, most: u32, allowed: &str) -> Result<u32, PipelineFileError> {
        read_count(&self.0, key, most, allowed)
    }

    /// A list of finite numbers.
    ///
    /// # Errors
    /// If the value is not such a list, or the key is absent.
    pub fn numbers(&self, key: &str, allowed: &str) -> Result<Vec<f64>, PipelineFileError> {
        self.0.numbers(key, allowed)
    }

    /// The table under a key, with these keys and no others; `None` if the value is not a table.
    ///
    /// # Errors
    /// If the table has another key.
    pub fn table(&self, key: &str, keys: &[&'static str]) -> Result<Option<Self>, PipelineFileError> {
        if self.0.shape(key) != Some(Shape::Table) {
            return Ok(None);
        }
        let Some(section) = self.0.section(key)? else { return Ok(None) };
        section.only(keys)?;
        Ok(Some(Self(section)))
    }

    /// The error for a key whose value is not allowed.
    pub fn wrong(&self, key: &str, allowed: &str) -> PipelineFileError {
        self.0.wrong(key, allowed)
    }
}
