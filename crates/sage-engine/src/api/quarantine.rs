//! Quarantined rows: listed without counts, released into blocks, erased, or removed at the end of the retention.
//!
//! A quarantined row is in no block and is never read by a query or a pipeline. The list shows which batches have
//! quarantined rows and why, without rows, values or counts. A release sends the rows through ingest again, under the
//! present stream file. An erasure is an event first; its files are removed afterwards.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray, RecordBatch};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::api::policy::{found, in_role};
use crate::api::{Engine, EngineError, IngestOutcome, Principal, note};
use crate::catalog::{Note, QuarantinedFile};
use crate::ingest::{Format, IngestError, REASON_COLUMN, Source};
use crate::stream::Role;

/// A file of quarantined rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineView {
    /// Its name, by which it is released or erased.
    pub file: String,
    /// The batch that contained the rows.
    pub batch: String,
    /// The time of the batch, in milliseconds since 1970; `None` for batches of older releases.
    pub at: Option<u64>,
    /// Why rows were quarantined.
    pub reasons: Vec<String>,
}

impl Engine {
    /// The files that contain quarantined rows, oldest first, with the reasons and without counts.
    ///
    /// # Errors
    /// When the principal is not a data engineer of the stream, or a file cannot be read.
    pub fn quarantine(&self, by: &Principal, stream: &str) -> Result<Vec<QuarantineView>, EngineError> {
        let mut views = Vec::new();
        for own in self.quarantined(by, stream, Role::DataEngineer, None)? {
            let rows = self.quarantined_rows(stream, &own)?;
            let reasons: BTreeSet<String> = rows.iter().flat_map(reasons_of).collect();
            if !reasons.is_empty() {
                let (file, batch) = (own.part.file, own.batch);
                views.push(QuarantineView { file, batch, at: own.at, reasons: reasons.into_iter().collect() });
            }
        }
        Ok(views)
    }

    /// The names of all quarantine files of a stream that the log names, including empty ones.
    pub fn quarantine_files(&self, stream: &str) -> Vec<String> {
        let catalog = self.catalog();
        let files = catalog.stream(stream).map_or(&[][..], |known| &known.quarantine);
        files.iter().map(|own| own.part.file.clone()).collect()
    }

    /// Sends the rows of quarantine files through ingest again, each file as its own batch, and erases the files. Rows
    /// that still belong to no block are quarantined again. Returns the outcome of each batch.
    ///
    /// # Errors
    /// When the principal is not a data engineer of the stream, or a file is unknown or cannot be read. Files that were
    /// released before the error stay released.
    pub fn release_quarantine(
        &self, by: &Principal, stream: &str, files: &[String],
    ) -> Result<Vec<(String, IngestOutcome)>, EngineError> {
        let mut released = Vec::new();
        for own in self.quarantined(by, stream, Role::DataEngineer, Some(files))? {
            let rows = self.quarantined_rows(stream, &own)?;
            let text = csv(&rows).ok_or(IngestError::Encoding)?;
            // After a crash between the two events the batch is known, and only the file has to be erased.
            let batch = format!("released from quarantine: {}", own.part.file);
            let bytes = Box::new(std::io::Cursor::new(text));
            let source = Source::Pipe { name: own.part.file.clone(), bytes, format: Some(Format::Csv) };
            let ingested = self.ingest(by, stream, &batch, source)?;
            self.erase(stream, vec![own], Some(by.name().to_owned()))?;
            released.push((batch, ingested));
        }
        Ok(released)
    }

    /// Erases files of quarantined rows.
    ///
    /// # Errors
    /// When the principal is neither a data engineer nor an officer of the stream, a file is unknown, or one still
    /// exists afterwards.
    pub fn erase_quarantine(&self, by: &Principal, stream: &str, files: &[String]) -> Result<(), EngineError> {
        let officer = self.catalog().stream(stream).is_some_and(|own| own.has_role(by.name(), Role::PrivacyOfficer));
        let role = if officer { Role::PrivacyOfficer } else { Role::DataEngineer };
        let chosen = self.quarantined(by, stream, role, Some(files))?;
        self.erase(stream, chosen, Some(by.name().to_owned()))
    }

    /// Erases the quarantined rows of all streams that are past their retention at `time`, in milliseconds since 1970.
    ///
    /// # Errors
    /// When the log or the store fails.
    pub fn erase_expired_quarantine(&self, time: u64) -> Result<(), EngineError> {
        let catalog = self.catalog();
        for (name, stream) in catalog.streams() {
            let Some(retention) = stream.file.retention else { continue };
            let retention = retention.microseconds().unsigned_abs() / 1000;
            let over = |own: &&QuarantinedFile| own.at.is_some_and(|at| at.saturating_add(retention) <= time);
            let expired: Vec<QuarantinedFile> = stream.quarantine.iter().filter(over).cloned().collect();
            if !expired.is_empty() {
                self.erase(name, expired, None)?;
            }
        }
        Ok(())
    }

    /// The named files of a stream, or all of them, for a principal in this role.
    fn quarantined(
        &self, by: &Principal, stream: &str, role: Role, files: Option<&[String]>,
    ) -> Result<Vec<QuarantinedFile>, EngineError> {
        self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, stream)?;
            in_role(known, by, role)?;
            let Some(files) = files else { return Ok(known.quarantine.clone()) };
            let find = |file: &String| known.quarantine.iter().find(|own| own.part.file == *file).cloned();
            files.iter().map(|file| find(file).ok_or_else(|| EngineError::NoQuarantine(file.clone()))).collect()
        })
    }

    fn erase(&self, stream: &str, chosen: Vec<QuarantinedFile>, by: Option<String>) -> Result<(), EngineError> {
        if chosen.is_empty() {
            return Ok(());
        }
        let files = chosen.iter().map(|own| own.part.file.clone()).collect();
        let erased = Note::QuarantineErased { stream: stream.to_owned(), files, by };
        self.with(|gate, catalog| Ok(note(gate, catalog, &erased)?))?;
        for own in &chosen {
            self.blocks.destroy_key(&own.part.key_owner(stream))?;
            self.blocks.delete(&own.part.path(stream))?;
        }
        Ok(())
    }

    /// The rows of a file, after its digest was verified.
    fn quarantined_rows(&self, stream: &str, own: &QuarantinedFile) -> Result<Vec<RecordBatch>, EngineError> {
        let path = own.part.path(stream);
        let bytes = self.blocks.read(&path)?;
        if *blake3::hash(&bytes).as_bytes() != own.part.digest {
            return Err(EngineError::Backup(crate::backup::BackupError::Missing(path)));
        }
        let bytes = self.blocks.decrypt(&own.part.key_owner(stream), &path, bytes)?;
        rows_of(bytes).ok_or(EngineError::Ingest(IngestError::Encoding))
    }
}

fn rows_of(bytes: Bytes) -> Option<Vec<RecordBatch>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).ok()?.build().ok()?;
    reader.collect::<Result<Vec<_>, _>>().ok()
}

fn reasons_of(rows: &RecordBatch) -> Vec<String> {
    let column = rows.column_by_name(REASON_COLUMN).and_then(|column| column.as_string_opt::<i32>());
    column.into_iter().flatten().flatten().map(str::to_owned).collect()
}

/// The rows as CSV without their reasons; a null is an empty field.
fn csv(rows: &[RecordBatch]) -> Option<Vec<u8>> {
    let mut text = String::new();
    for (index, batch) in rows.iter().enumerate() {
        let schema = batch.schema();
        let columns: Vec<usize> =
            (0..batch.num_columns()).filter(|&column| schema.field(column).name() != REASON_COLUMN).collect();
        if index == 0 {
            push_line(&mut text, columns.iter().map(|&column| Some(schema.field(column).name().as_str())));
        }
        let texts: Option<Vec<_>> = columns.iter().map(|&column| batch.column(column).as_string_opt::<i32>()).collect();
        let texts = texts?;
        for row in 0..batch.num_rows() {
            push_line(&mut text, texts.iter().map(|column| (!column.is_null(row)).then(|| column.value(row))));
        }
    }
    Some(text.into_bytes())
}

fn push_line<'fields>(text: &mut String, fields: impl Iterator<Item = Option<&'fields str>>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        if let Some(field) = field {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        }
    }
    text.push('\n');
}
