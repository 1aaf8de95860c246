//! Attempts with the author's own program: it reads the rows of the train lane in a sandbox, and the engine tests its
//! model on the test lane.
//!
//! The program returns a description and weights in the engine's own format, or an ONNX file that is translated into
//! it; nothing it returns is executed. There are two charges: the author vouches for what the program did with the
//! train lane (the attested access mode), and the kernel enforces the charge of the test. Rows leave the sandbox only
//! in what the author vouches for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use sage_kernel::{Lane, Session};
use sage_learn::validate::{Estimate, Verdict};
use sage_model::bundle::{ESSENTIAL, Graph, ONNX_FILE, Predictor, TrialRefusal, described, import_onnx, try_out};
use sage_model::formula::Column;
use sage_sandbox::{Containment, Ending, Exit, Limits, Line, Output, ReadOnlyMount, Run as SandboxRun, Sandbox};
use serde::Serialize;

use crate::api::Engine;
use crate::pipeline::RowTransport;
use crate::plan::{AttemptCost, LABEL, OwnCode, Recipe, TestLabel, TrainingNoise, graph_columns};
use crate::private;
use crate::read::{Batch, Query, Row};
use crate::release;
use crate::run::{AttemptFailure, AttemptObserver, AttemptResult, ExternalModelTest, Product, Stage};
use crate::worker::Granted;
use crate::worker::baseline::{cells, expression};
use crate::worker::flight::Serving;
use crate::worker::run_loop::Job;

/// The time limit of a program if its pipeline sets none.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

/// A session after a test, with the verdict and the metric of the best constant prediction.
type TestedModel = (Session<Batch>, (Verdict, Option<Estimate>));

impl Engine {
    /// Performs an attempt with the author's program.
    pub(crate) fn own_code(&self, job: Job, observer: &dyn AttemptObserver) -> Result<AttemptResult, AttemptFailure> {
        let Job { run, attempt, recipe, attempt_cost, granted, tested } = job;
        let (Some(own), Some(label), Some(tested)) = (recipe.own_code(), recipe.tested(), tested) else {
            return Err(AttemptFailure("a program has a charge for what it sees and one for its test".to_owned()));
        };
        let sandbox = Sandbox::new(match &self.options.uncontained {
            None => Containment::Isolated,
            Some(name) => Containment::None { allowed_by: name.clone() },
        });
        let closed = sandbox.available().map(|_| ()).map_err(|error| AttemptFailure(error.to_string()));
        let folder = closed.and_then(|()| Scratch::new(self.path(), run, attempt.serial));
        let folder = match folder {
            Ok(folder) => folder,
            Err(reason) => return Err(self.unread([granted, tested], reason)),
        };
        observer.enter(Stage::Reading)?;
        let made = self.seen(own, &recipe, &attempt_cost, granted, &folder, (run, attempt.serial), &sandbox, observer);
        let made = made.and_then(|graph| observer.enter(Stage::Validating).map(|()| graph));
        let of = (run, attempt.serial);
        let tried = |graph| Ok((self.tried_out(&graph, &recipe).map_err(|why| self.for_author(of, why))?, graph));
        let made = made.and_then(tried);
        let (predictor, graph) = match made {
            Ok(made) => made,
            Err(reason) => return Err(self.unread([tested], reason)),
        };
        let (session, (verdict, best_constant)) =
            self.tested(label, &recipe, &attempt_cost, tested, &predictor, &attempt)?;
        let product = Product::Model(Box::new(graph));
        Ok(AttemptResult { finished: session.finish(), verdict, best_constant, product })
    }

    /// Runs the program on the rows of the train lane and returns its model.
    #[allow(clippy::too_many_arguments, reason = "each is a different thing, and they come together here alone")]
    fn seen(
        &self, own: &OwnCode, recipe: &Recipe, attempt_cost: &AttemptCost, granted: Granted, folder: &Scratch,
        of: (u64, u64), sandbox: &Sandbox, observer: &dyn AttemptObserver,
    ) -> Result<Graph, AttemptFailure> {
        let failed = |error: std::io::Error| AttemptFailure(format!("the run's folder cannot be written: {error}"));
        let grant = granted.id();
        let session = self.open_session(granted, recipe.query()).map_err(AttemptFailure::from)?;
        let rows = session
            .into_attested()
            .map_err(|_| AttemptFailure("the stream does not allow the attested access mode".to_owned()))?;
        let names: Vec<String> = recipe.query().columns.iter().map(|column| column.name.clone()).collect();
        let batches = rows.lane(Lane::Train).iter().filter_map(|batch| batch.records(&names)).collect();
        // Dropped at the end of this function, after the program has ended.
        let serving = match own.rows {
            RowTransport::Parquet => folder.write_rows(batches).map(|()| None),
            RowTransport::Flight => Serving::start(&folder.path, batches).map(Some),
        };
        let serving = serving.map_err(failed)?;
        let finished = rows.finish();
        let mut context = context(recipe, attempt_cost, of, grant.0, &sandbox.rows_path(&folder.path));
        if let Some(serving) = &serving {
            let location = format!("grpc+unix://{}", sandbox.socket_path(serving.socket()).display());
            context.flight = Some(FlightAddress { location, ticket: serving.ticket().to_owned() });
        }
        let context = serde_json::to_vec(&context).map_err(|error| failed(error.into()))?;
        private::write(&folder.path.join("context.json"), &context).map_err(failed)?;
        for shown in std::iter::once(folder.path.clone()).chain(self.code_of(of.0)) {
            private::show_to_sandbox(&shown).map_err(failed)?;
        }
        observer.enter(Stage::Training)?;
        let own_time = own.time_limit.map(|width| Duration::from_micros(width.microseconds().unsigned_abs()));
        let operator = self.attempt_limits(recipe.pipeline());
        let time = own_time.into_iter().chain(operator.time).min().unwrap_or(TIME_LIMIT);
        let most = Limits::default();
        let memory_bytes = operator.memory_bytes.unwrap_or(most.memory_bytes);
        let command = SandboxRun {
            command: own.words.clone(),
            folder: folder.path.clone(),
            code: self.code_of(of.0),
            mounts: self
                .options
                .shown
                .iter()
                .map(|path| ReadOnlyMount { source: path.clone(), target: path.clone() })
                .collect(),
            socket: serving.as_ref().map(|serving| serving.socket().to_owned()),
            limits: Limits { time, processor_time: time, memory_bytes, ..most },
        };
        let mut spent = Spent::new(attempt_cost);
        let report = sandbox
            .run(&command, &mut |line: Line| spent.record(&line))
            .map_err(|error| AttemptFailure(error.to_string()))?;
        self.keep_printed(of, &report);
        let columns = self.columns_of(recipe);
        let found = spent
            .within()
            .and_then(|()| ended_well(&report.ending))
            .and_then(|()| import_output(&report.output, &columns));
        let (graph, digest) = found.map_err(|why| self.for_author(of, why))?;
        // The charge covers what the program read; its output is identified by its digest.
        self.release(finished, digest).map_err(AttemptFailure::from)?;
        Ok(graph)
    }

    /// The columns of the stream that a model can read.
    fn columns_of(&self, recipe: &Recipe) -> Vec<Column> {
        let catalog = self.catalog();
        let stream = catalog.stream(&recipe.pipeline().stream);
        stream.map(|stream| graph_columns(&stream.file)).unwrap_or_default()
    }

    /// Loads the model for prediction, if it reads only columns of the stream.
    fn tried_out(&self, graph: &Graph, recipe: &Recipe) -> Result<Predictor, AttemptFailure> {
        let catalog = self.catalog();
        let file = catalog.stream(&recipe.pipeline().stream).map(|stream| &stream.file);
        let declared = |name: &str| file.is_some_and(|file| file.column(name).is_some());
        // The message does not name the column: the name comes from a program that has read rows.
        if !graph.outline().schema.columns().iter().all(|column| declared(&column.name)) {
            return Err(AttemptFailure("its model reads a column that the stream does not have".to_owned()));
        }
        // Otherwise a program could exclude the rows that its model gets wrong.
        if graph.outline().leaves_rows_out() {
            return Err(AttemptFailure(
                "each number field of its model needs `missing`: what stands for a missing value".to_owned(),
            ));
        }
        try_out(graph).map_err(|refusal| match refusal {
            TrialRefusal::Broken(_) => AttemptFailure("its model does not run on synthetic rows".to_owned()),
            other => AttemptFailure(other.to_string()),
        })
    }

    /// Tests the model on the test lane. The metric of the best constant prediction is beside the verdict.
    pub(crate) fn tested(
        &self, label: &TestLabel, recipe: &Recipe, attempt_cost: &AttemptCost, granted: Granted, predictor: &Predictor,
        attempt: &crate::adapt::Attempt,
    ) -> Result<TestedModel, AttemptFailure> {
        let mut columns = vec![label.label.clone()];
        columns.extend(predictor.columns().iter().map(|column| expression("the model", column)));
        let mut query = Query { filter: recipe.pipeline().filter.clone(), columns };
        let baseline = match self.baseline_beside(recipe.pipeline(), &mut query, label.bounds) {
            Ok(baseline) => baseline,
            Err(error) => return Err(self.unread([granted], AttemptFailure::from(error))),
        };
        let mut session = self.open_session(granted, &query).map_err(AttemptFailure::from)?;
        // A row that the model excludes by its rule for missing values is not tested. NaN is a wrong prediction.
        let predict = |row: Row<'_>| {
            let cells = cells(predictor.columns(), row, 1);
            if predictor.leaves_out(&cells) {
                return None;
            }
            let found = predictor.rows(&[cells]).ok().and_then(|found| found.first().copied());
            Some(found.map_or(f64::NAN, f64::from))
        };
        let test = ExternalModelTest { recipe, cost: attempt_cost, attempt, bounds: label.bounds };
        let verdict = match &baseline {
            Some(baseline) => test
                .compare(&mut session, predict, |row, label| baseline.loss_of(row, label))
                .map(|verdict| (verdict, None))?,
            None => test.run(&mut session, predict)?,
        };
        Ok((session, verdict))
    }

    /// The folder of the code that was submitted with a run.
    fn code_of(&self, run: u64) -> Option<PathBuf> {
        let catalog = self.catalog();
        let digest = catalog.history().run(run)?.code.clone()?;
        Some(self.path().join("code").join(digest))
    }
}

/// Refuses the result of a program that did not exit successfully. The program has read rows, so the reason is for its
/// author only.
fn ended_well(ending: &Ending) -> Result<(), AttemptFailure> {
    Err(AttemptFailure(match ending {
        Ending::Exit(Exit::Success) => return Ok(()),
        Ending::Exit(Exit::TryLater) => "the program asks to be tried later".to_owned(),
        Ending::Exit(Exit::Failed(code)) => format!("the program failed with exit code {code}"),
        Ending::Signal(signal) => format!("the program was ended by signal {signal}"),
        Ending::Limit(limit) => format!("the program came to a limit: {limit:?}"),
        _ => "the program was stopped".to_owned(),
    }))
}

/// The context file that a program gets with its rows. The keys are in alphabetical order.
#[derive(Serialize)]
struct ProgramContext {
    attempt: u64,
    columns: Vec<String>,
    delta: String,
    epsilon: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    flight: Option<FlightAddress>,
    grant: u64,
    label: &'static str,
    label_bounds: Option<(f64, f64)>,
    output: [&'static str; 2],
    pipeline: String,
    rows: PathBuf,
    run: u64,
    seed: u64,
    stream: String,
}

/// Where the program reads its rows over Arrow Flight.
#[derive(Serialize)]
struct FlightAddress {
    location: String,
    ticket: String,
}

fn context(recipe: &Recipe, attempt_cost: &AttemptCost, of: (u64, u64), grant: u64, rows: &Path) -> ProgramContext {
    let (epsilon, delta) = match attempt_cost.noises.train {
        TrainingNoise::Declared(epsilon, delta) => (epsilon.to_string(), delta.to_string()),
        _ => ("0".to_owned(), "0".to_owned()),
    };
    ProgramContext {
        attempt: of.1,
        columns: recipe.query().columns.iter().map(|column| column.name.clone()).collect(),
        delta,
        epsilon,
        flight: None,
        grant,
        label: LABEL,
        label_bounds: recipe.tested().and_then(|label| label.bounds),
        output: ESSENTIAL,
        pipeline: recipe.pipeline().name.clone(),
        rows: rows.to_owned(),
        run: of.0,
        seed: of.0 * 1000 + of.1,
        stream: recipe.pipeline().stream.clone(),
    }
}

/// The graph in the output folder, as an ONNX file or as a description and weights, with the digest of its files.
fn import_output(output: &Output, columns: &[Column]) -> Result<(Graph, [u8; 32]), AttemptFailure> {
    let cannot = |error: &dyn std::fmt::Display| AttemptFailure(format!("its output cannot be taken: {error}"));
    match output.read(Path::new(ONNX_FILE)) {
        Ok(_) if output.open(Path::new(ESSENTIAL[0])).is_ok() => {
            return Err(cannot(&format!("`{ONNX_FILE}` and `{}` are both there; leave one of them", ESSENTIAL[0])));
        }
        Ok(bytes) => {
            let graph = import_onnx(&bytes, columns).map_err(|refusal| cannot(&refusal))?;
            return Ok((graph, digest_of(&[(ONNX_FILE, &bytes)])));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(&format!("`{ONNX_FILE}`: {error}"))),
    }
    let file = |name: &str| {
        let missing = |error: std::io::Error| {
            AttemptFailure(format!("the program left no `{name}`, and no `{ONNX_FILE}`, in its output folder: {error}"))
        };
        output.read(Path::new(name)).map_err(missing)
    };
    let (description, weights) = (file(ESSENTIAL[0])?, file(ESSENTIAL[1])?);
    let graph = described(&description, &weights).map_err(|error| cannot(&error.without_contents()))?;
    Ok((graph, digest_of(&[(ESSENTIAL[0], &description), (ESSENTIAL[1], &weights)])))
}

/// The digest of a list of files with their names.
fn digest_of(files: &[(&str, &[u8])]) -> [u8; 32] {
    *release::digest(files.iter().copied()).as_bytes()
}

/// The privacy loss that the program reports, compared with its grant.
struct Spent {
    granted: Option<(f64, f64)>,
    reported: Vec<sage_kernel::accountant::Loss>,
    counts: Vec<u64>,
}

impl Spent {
    fn new(attempt_cost: &AttemptCost) -> Self {
        let granted = match attempt_cost.noises.train {
            TrainingNoise::Declared(epsilon, delta) => {
                Some((epsilon.units() as f64 / 1e12, delta.units() as f64 / 1e18))
            }
            _ => None,
        };
        Self { granted, reported: Vec::new(), counts: Vec::new() }
    }

    /// Reads a message such as `{"kind": "spent", "sigma": 1.1, "q": 0.01, "steps": 1000}`. Other messages are ignored.
    fn record(&mut self, line: &Line) {
        let Line::Json(message) = line else { return };
        if message["kind"] == "spent"
            && let (Some(sigma), Some(q), Some(steps)) =
                (message["sigma"].as_f64(), message["q"].as_f64(), message["steps"].as_u64())
        {
            self.reported.push(sage_kernel::accountant::Loss::SampledGaussian { q, sigma });
            self.counts.push(steps);
        }
    }

    /// Refuses a program that reports more than its grant.
    fn within(&self) -> Result<(), AttemptFailure> {
        let Some((epsilon, delta)) = self.granted.filter(|_| !self.reported.is_empty()) else { return Ok(()) };
        let items: Vec<_> = self.reported.iter().copied().zip(self.counts.iter().copied()).collect();
        let composed = sage_kernel::accountant::Composition::new(&items).and_then(|all| all.epsilon(delta));
        match composed {
            Ok(reported) if reported <= epsilon => Ok(()),
            _ => Err(AttemptFailure("the program reported more privacy loss than it was granted".to_owned())),
        }
    }
}

/// The folder of one execution of a program, removed when it is dropped.
struct Scratch {
    path: PathBuf,
}

/// The parent of these folders, in the engine's directory.
pub(crate) const SCRATCH: &str = "scratch";

impl Scratch {
    fn new(directory: &Path, run: u64, serial: u64) -> Result<Self, AttemptFailure> {
        let path = directory.join(SCRATCH).join(format!("{run}-{serial}"));
        let made = fs::remove_dir_all(&path).or(Ok(())).and_then(|()| private::make_directories(&path.join("rows")));
        made.map_err(|error| AttemptFailure(format!("the run's folder cannot be created: {error}")))?;
        Ok(Self { path })
    }

    fn write_rows(&self, records: Vec<RecordBatch>) -> std::io::Result<()> {
        let Some(first) = records.first() else { return Ok(()) };
        let file = private::create(&self.path.join("rows").join("rows.parquet"))?;
        let mut writer = ArrowWriter::try_new(file, first.schema(), None).map_err(std::io::Error::other)?;
        records.iter().try_for_each(|records| writer.write(records)).map_err(std::io::Error::other)?;
        writer.close().map(|_| ()).map_err(std::io::Error::other)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Anything left behind is removed at the next start.
        let _ = fs::remove_dir_all(&self.path);
    }
}
