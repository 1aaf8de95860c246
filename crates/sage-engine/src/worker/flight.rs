//! Serves granted rows over Arrow Flight, for programs that do not read files.
//!
//! The socket is a file in the folder of the execution and is mounted into the sandbox; no network is involved. The
//! server returns exactly the granted rows of the train lane, once, for the one ticket that the program finds in its
//! context. No other request is served. When the program ends, the server closes all connections.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::future::select;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::api::lock;
use crate::quiet::READER;

/// The name of the socket in the folder.
const SOCKET: &str = "flight";
/// The most connections of a program; each uses a file descriptor of this process.
const CONNECTIONS: usize = 16;

/// Rows that wait for a client with their ticket.
struct Waiting {
    ticket: String,
    schema: SchemaRef,
    rows: Mutex<Option<Vec<RecordBatch>>>,
}

/// A server for one program, stopped when it is dropped.
pub(crate) struct Serving {
    socket: PathBuf,
    ticket: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Serves these rows on a socket in this folder.
    pub(crate) fn start(folder: &Path, rows: Vec<RecordBatch>) -> io::Result<Self> {
        let socket = folder.join(SOCKET);
        let mut drawn = [0; 32];
        SystemRandom::new()
            .fill(&mut drawn)
            .map_err(|_| io::Error::other("the operating system returned no random bytes"))?;
        let ticket = blake3::Hash::from(drawn).to_hex().to_string();
        let schema = rows.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        let waiting = Waiting { ticket: ticket.clone(), schema, rows: Mutex::new(Some(rows)) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(&socket)?
        };
        // In the sandbox the program may run as another user; no one else can enter the folder.
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666))?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let served = Box::pin(serve(listener, waiting));
                drop(select(served, stopped).await);
            });
            // Dropping the runtime closes every connection.
        };
        let thread = Builder::new().name(READER.to_owned()).spawn(serve)?;
        Ok(Self { socket, ticket, stop: Some(stop), thread: Some(thread) })
    }

    /// The path of the socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The ticket that the program must present.
    pub(crate) fn ticket(&self) -> &str {
        &self.ticket
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

async fn serve(listener: UnixListener, waiting: Waiting) {
    let accept = |listener: UnixListener| async {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    };
    // After the last accepted connection the server continues for those that are open.
    let incoming = futures::stream::unfold(listener, accept).take(CONNECTIONS).chain(futures::stream::pending());
    let server = Server::builder().add_service(FlightServiceServer::new(waiting));
    // If the program has ended, its socket is closed and there is no one to notify.
    let _ = server.serve_with_incoming(incoming).await;
}

type ResponseStream<T> = BoxStream<'static, Result<T, Status>>;
type FlightResponse<T> = Result<Response<T>, Status>;

fn not_offered<T>() -> FlightResponse<T> {
    Err(Status::unimplemented("only DoGet is served, with the ticket from the context file of the run"))
}

#[tonic::async_trait]
impl FlightService for Waiting {
    type HandshakeStream = ResponseStream<HandshakeResponse>;
    type ListFlightsStream = ResponseStream<FlightInfo>;
    type DoGetStream = ResponseStream<FlightData>;
    type DoPutStream = ResponseStream<PutResult>;
    type DoExchangeStream = ResponseStream<FlightData>;
    type DoActionStream = ResponseStream<arrow_flight::Result>;
    type ListActionsStream = ResponseStream<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> FlightResponse<Self::DoGetStream> {
        if request.into_inner().ticket != self.ticket.as_bytes() {
            return Err(Status::permission_denied("this is not the ticket of this run; read it from the context file"));
        }
        let Some(rows) = lock(&self.rows).take() else {
            return Err(Status::permission_denied("this ticket was used; the rows of a run are sent once"));
        };
        let rows = futures::stream::iter(rows.into_iter().map(Ok));
        let encoded = FlightDataEncoderBuilder::new().with_schema(Arc::clone(&self.schema)).build(rows);
        // An error message of the encoder could contain a value of a row.
        Ok(Response::new(encoded.map_err(|_| Status::internal("the rows could not be sent")).boxed()))
    }

    async fn handshake(&self, _: Request<Streaming<HandshakeRequest>>) -> FlightResponse<Self::HandshakeStream> {
        not_offered()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> FlightResponse<Self::ListFlightsStream> {
        not_offered()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> FlightResponse<FlightInfo> {
        not_offered()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> FlightResponse<PollInfo> {
        not_offered()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> FlightResponse<SchemaResult> {
        not_offered()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> FlightResponse<Self::DoPutStream> {
        not_offered()
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> FlightResponse<Self::DoExchangeStream> {
        not_offered()
    }

    async fn do_action(&self, _: Request<Action>) -> FlightResponse<Self::DoActionStream> {
        not_offered()
    }

    async fn list_actions(&self, _: Request<Empty>) -> FlightResponse<Self::ListActionsStream> {
        not_offered()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Float64Array};
    use arrow_flight::FlightClient;
    use tonic::transport::Endpoint;

    use super::*;

    fn rows(numbers: std::ops::Range<i32>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Float64Array::from_iter_values(numbers.map(f64::from)));
        RecordBatch::try_from_iter([("x", column)]).expect("rows")
    }

    async fn client(socket: &Path) -> Option<FlightClient> {
        let endpoint = Endpoint::try_from(format!("unix://{}", socket.display())).expect("an address");
        Some(FlightClient::new(endpoint.connect().await.ok()?))
    }

    async fn fetch_rows(client: &mut FlightClient, ticket: &str) -> Result<Vec<RecordBatch>, String> {
        let stream = client.do_get(Ticket::new(ticket.to_owned())).await.map_err(|error| error.to_string())?;
        stream.try_collect().await.map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_given_once_for_the_ticket_and_for_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir().expect("another run's folder");
        let all = vec![rows(0..5000), rows(5000..7000)];
        let serving = Serving::start(folder.path(), all.clone()).expect("a server");
        let of_other = Serving::start(other.path(), vec![rows(0..1)]).expect("a server");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let socket = serving.socket().to_owned();
        runtime.block_on(async {
            let mut client = client(&socket).await.expect("a connection");
            let short = serving.ticket()[..8].to_owned();
            for ticket in ["", "all", "block=0", short.as_str(), of_other.ticket()] {
                let refused = fetch_rows(&mut client, ticket).await.expect_err(ticket);
                assert!(refused.contains("not the ticket"), "{ticket}: {refused}");
            }
            let about = FlightDescriptor::new_cmd(serving.ticket().to_owned());
            let refused = client.get_flight_info(about).await.expect_err("no information").to_string();
            assert!(refused.contains("DoGet"), "{refused}");
            assert!(client.list_flights("").await.is_err(), "there is no list");
            assert_eq!(fetch_rows(&mut client, serving.ticket()).await.expect("the rows"), all);
            let refused = fetch_rows(&mut client, serving.ticket()).await.expect_err("a second time");
            assert!(refused.contains("was used"), "{refused}");
        });
        drop(serving);
        assert!(!socket.exists());
        assert!(runtime.block_on(client(&socket)).is_none(), "no server after the end");
    }

    #[test]
    fn a_connection_that_is_open_at_the_end_is_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let serving = Serving::start(folder.path(), vec![rows(0..10)]).expect("a server");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("one");
        let mut open = runtime.block_on(client(serving.socket())).expect("a connection");
        let ticket = serving.ticket().to_owned();
        drop(serving);
        assert!(runtime.block_on(fetch_rows(&mut open, &ticket)).is_err());
    }
}
