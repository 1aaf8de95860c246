//! Submission of a pipeline with own code: the pipeline file and the code folder in one body.
//!
//! The files are texts with relative paths inside the folder: not absolute, without `..`, not hidden. They are written
//! to a temporary folder, which the engine copies under its digest, and which is removed before the response.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sage_engine::pipeline::Pipeline;
use sage_engine::stream::Role;
use sage_engine::{EngineError, private};

use crate::call::{Call, Reply};
use crate::handlers::runs::submit_pipeline;
use crate::problem::Problem;
use crate::submissions::Submission;
use crate::views::requests::ProgramRequest;

const MOST_FILES: usize = 200;
const LONGEST_PATH: usize = 200;

pub(crate) fn submit(call: &Call<'_>) -> Result<Reply, Problem> {
    let ProgramRequest { pipeline: text, files } =
        call.request("{\"pipeline\": \"the text of its file\", \"files\": {\"train.py\": \"the text of the file\"}}")?;
    let pipeline = Pipeline::parse(&text).map_err(EngineError::PipelineFile)?;
    call.require_role(Role::MlEngineer, &pipeline.stream)?;
    if files.is_empty() || files.len() > MOST_FILES {
        return Err(Problem::unfit(format!("\"files\" has 1 to {MOST_FILES} entries: a path and a text each")));
    }
    let folder = Folder::new(&call.server.directory.path)?;
    folder.fill(&files)?;
    submit_pipeline(call, &Submission { text: &text, code: Some(&folder.0), sent: &call.body })
}

/// A temporary folder; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(directory: &Path) -> Result<Self, Problem> {
        let name = crate::tokens::random::<8>().map_err(|error| failed(directory, error))?;
        let path = directory.join(format!("incoming-{name}"));
        private::make_directories(&path).map_err(|error| failed(&path, error))?;
        Ok(Self(path))
    }

    fn fill(&self, files: &BTreeMap<String, String>) -> Result<(), Problem> {
        for (name, text) in files {
            if !stays_below(name) {
                return Err(Problem::unfit(format!(
                    "a path of \"files\" is not taken: it has at most {LONGEST_PATH} bytes, and parts of letters, digits, \
                     - _ and dots inside, with / between them"
                )));
            }
            let path = self.0.join(name);
            let parent = path.parent().unwrap_or(&self.0);
            private::make_directories(parent).and_then(|()| private::write(&path, text.as_bytes())).map_err(
                |error| match error.kind() {
                    std::io::ErrorKind::NotADirectory | std::io::ErrorKind::IsADirectory => {
                        Problem::unfit("a path of \"files\" is both a file and a folder")
                    }
                    std::io::ErrorKind::AlreadyExists => {
                        Problem::unfit("a path of \"files\" is both a file and a folder")
                    }
                    _ => failed(&path, error),
                },
            )?;
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is harmless, because nothing reads it.
        drop(fs::remove_dir_all(&self.0));
    }
}

fn failed(path: &Path, error: std::io::Error) -> Problem {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    EngineError::File(name, error).into()
}

/// Whether a path is relative and stays below the folder on every operating system.
fn stays_below(path: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(plain);
    path.len() <= LONGEST_PATH && path.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::stays_below;

    #[test]
    fn no_path_leads_out() {
        for good in ["train.py", "model/layers.py", "a-b_c/d.e.f"] {
            assert!(stays_below(good), "{good}");
        }
        let long = "a".repeat(201);
        for bad in
            ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".hidden", "a/./b", "a\\b", "a\0b", "é", "c:x", &long]
        {
            assert!(!stays_below(bad), "{bad}");
        }
    }
}
