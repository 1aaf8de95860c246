//! Commands on a directory.

use std::fs::File;
use std::io::Read;

use sage_engine::serve::{RowError, RowReader};
use sage_engine::{Engine, EngineError, Principal, QueryRequest, ReleaseView, Stopped};
use sage_server::clock::now;
use sage_server::views::census::Census;
use sage_server::views::plan::Plan;
use sage_server::views::queries::{QueryPlan, QueryResponse, QueryResult};
use sage_server::views::releases::{Prediction, Release, ReleaseSummary, full_name};
use sage_server::views::requests::RunsRequest;
use sage_server::views::runs::{Run, RunSummary};
use sage_server::views::streams::{Block, Stream};

use super::{Cancelled, Client, KeyedQuery, PipelineRequest, PredictRequest};
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::suggest::hinted;

/// A client of a directory that this process has open.
pub(crate) struct LocalClient {
    engine: Engine,
    user: Option<UserArgs>,
}

impl LocalClient {
    pub(crate) fn open(directory: &DirectoryArgs, user: Option<&UserArgs>) -> Result<Self, Failure> {
        Ok(Self { engine: directory.open()?, user: user.cloned() })
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    fn user(&self) -> Result<Principal, Failure> {
        self.user.clone().unwrap_or_default().principal()
    }

    fn hinted(&self, error: EngineError) -> Failure {
        hinted(&self.engine, error)
    }

    fn stream_view(&self, name: &str) -> Result<sage_engine::StreamView, Failure> {
        let found = self.engine.snapshot()?.stream(name);
        found.ok_or_else(|| self.hinted(EngineError::NoStream(name.to_owned())))
    }

    /// The release of a name.
    pub(crate) fn release_view(&self, name: &str) -> Result<ReleaseView, Failure> {
        self.engine.release_named(name).map_err(|error| self.hinted(error))
    }

    /// The failure of a pipeline: what is wrong with its file is reported with its name.
    fn pipeline_failure(&self, request: &PipelineRequest, error: EngineError) -> Failure {
        let is_file = matches!(error, EngineError::PipelineFile(_) | EngineError::Plan(_));
        match self.hinted(error) {
            Failure::Engine { message, code } if is_file => {
                let message = format!(
                    "{}: {message}\n  help  docs/reference/pipeline-file.md describes the file",
                    request.file.display()
                );
                Failure::Engine { message, code }
            }
            other => other,
        }
    }

    /// Submits a pipeline, with the folder of its program if it has one.
    pub(crate) fn submit_with(
        &self, request: &PipelineRequest, code: Option<&std::path::Path>,
    ) -> Result<u64, Failure> {
        let submitted = self.engine.submit_with(&self.user()?, &request.text, code, now());
        submitted.map_err(|error| self.pipeline_failure(request, error))
    }

    fn query_failure(&self, error: EngineError) -> Failure {
        let help = matches!(error, EngineError::Question(_));
        match self.hinted(error) {
            Failure::Engine { message, code } if help => Failure::Engine {
                message: format!("{message}\n  help  docs/reference/private-sql.md describes the language"),
                code,
            },
            other => other,
        }
    }
}

/// Rows predicted at a time.
const AT_ONCE: usize = 4096;

impl Client for LocalClient {
    fn runs(&self, request: &RunsRequest) -> Result<Vec<RunSummary>, Failure> {
        let mut runs = self.engine.runs();
        if let Some(stream) = &request.stream {
            self.stream_view(stream)?;
            runs.retain(|run| run.stream == *stream);
        }
        Ok(runs.iter().map(|run| RunSummary::new(&self.engine, run)).collect())
    }

    fn run(&self, number: u64) -> Result<Run, Failure> {
        Ok(Run::read(&self.engine, number)?)
    }

    fn cancel(&self, number: u64) -> Result<Cancelled, Failure> {
        Ok(match self.engine.stop_run(&self.user()?, number)? {
            Stopped::Run => Cancelled::Run,
            Stopped::Recurrence => Cancelled::Recurrence,
        })
    }

    fn plan(&self, request: &PipelineRequest) -> Result<Plan, Failure> {
        let preview = self.engine.preview(&self.user()?, &request.text);
        Ok(Plan::from(&preview.map_err(|error| self.pipeline_failure(request, error))?))
    }

    fn submit(&self, request: &PipelineRequest) -> Result<Run, Failure> {
        self.run(self.submit_with(request, None)?)
    }

    fn streams(&self) -> Result<Vec<Stream>, Failure> {
        Ok(self.engine.snapshot()?.streams().iter().map(Stream::from).collect())
    }

    fn stream(&self, name: &str) -> Result<Stream, Failure> {
        Ok(Stream::from(&self.stream_view(name)?))
    }

    fn blocks(&self, stream: &str) -> Result<Vec<Block>, Failure> {
        let blocks = self.engine.snapshot()?.blocks(stream);
        let blocks = blocks.ok_or_else(|| self.hinted(EngineError::NoStream(stream.to_owned())))?;
        Ok(blocks.iter().map(Block::from).collect())
    }

    fn census(&self, stream: &str) -> Result<Census, Failure> {
        self.stream_view(stream)?;
        Ok(Census::new(stream, self.engine.snapshot()?.census(stream).as_ref()))
    }

    fn query(&self, request: &KeyedQuery) -> Result<QueryResponse, Failure> {
        let KeyedQuery { stream, key, query } = request;
        let ask = QueryRequest {
            key: key.clone(),
            stream: stream.clone(),
            context: query.context.clone(),
            sql: query.sql.clone(),
            spend: query.spend()?,
            which: query.which()?,
        };
        let user = self.user()?;
        let failed = |error| self.query_failure(error);
        Ok(match query.plan {
            true => QueryResponse::Plan(QueryPlan::from(&self.engine.plan_query(&user, &ask).map_err(failed)?)),
            false => QueryResponse::Result(QueryResult::from(&self.engine.query(&user, &ask).map_err(failed)?)),
        })
    }

    fn releases(&self) -> Result<Vec<ReleaseSummary>, Failure> {
        Ok(self.engine.releases().iter().map(ReleaseSummary::from).collect())
    }

    fn release(&self, name: &str) -> Result<Release, Failure> {
        Ok(Release::read(&self.engine, &self.release_view(name)?)?)
    }

    fn predict(
        self: Box<Self>, request: &PredictRequest, each: &mut dyn FnMut(Vec<Prediction>) -> Result<(), Failure>,
    ) -> Result<String, Failure> {
        let release = self.release_view(&request.model)?;
        let predictor = self.engine.predictor(&release)?;
        let name = full_name(&release);
        // A release is public: other processes may use the directory while rows are read.
        self.engine.close()?;
        let wrong = |why: RowError| {
            Failure::no_answer(why.to_string(), format!("what the model needs: sage predict {name} --columns"))
        };
        let mut reader = RowReader::new(predictor.columns(), request.input()?, request.format).map_err(wrong)?;
        loop {
            let rows = reader.take_rows(AT_ONCE).map_err(wrong)?;
            if rows.is_empty() {
                return Ok(name);
            }
            let found = predictor.rows(&rows).map_err(EngineError::from)?;
            each(Prediction::list(&predictor, &found))?;
        }
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.engine.close()?)
    }
}

impl PredictRequest {
    /// The bytes of the rows.
    pub(super) fn input(&self) -> Result<Box<dyn Read + Send>, Failure> {
        let Some(path) = &self.file else { return Ok(Box::new(std::io::stdin())) };
        let file = File::open(path).map_err(|error| {
            Failure::usage(format!("{}: {error}", path.display()), "name a file of rows, or - for standard input")
        })?;
        Ok(Box::new(file))
    }
}
