//! Following a server: its events say when to look, its description of a run what to tell.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode};
use serde_json::Value;

use super::{TOKEN, Watch};
use crate::failure::{Failure, quoted};
use crate::output::print;

/// How long nothing is heard before it is looked whether somebody asked to stop.
const PATIENCE: Duration = Duration::from_millis(250);
const TO_CONNECT: Duration = Duration::from_secs(5);
/// Runs of one page of the server's list.
const AT_A_TIME: u64 = 500;

struct Server {
    client: Client,
    address: String,
    token: String,
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|error| Failure::no_answer(format!("the network cannot be used: {error}"), "try again"))
}

fn client() -> Result<Client, Failure> {
    let made = Client::builder().connect_timeout(TO_CONNECT).build();
    made.map_err(|error| Failure::no_answer(format!("the network cannot be used: {error}"), "try again"))
}

/// Whether a server answers at this address.
pub(super) fn is_there(address: &str) -> bool {
    let asked = || -> Result<bool, Failure> {
        let (runtime, client) = (runtime()?, client()?);
        let answer = runtime.block_on(client.get(format!("{address}/livez")).send());
        Ok(answer.is_ok_and(|answer| answer.status().is_success()))
    };
    asked().unwrap_or(false)
}

/// Looks whenever something has happened, until there is an end.
pub(super) fn follow(watch: &mut Watch, address: &str) -> Result<(), Failure> {
    let token = std::env::var(TOKEN).map_err(|_| {
        Failure::usage(
            format!("a server is asked with a token, and {TOKEN} is not set"),
            format!("make one with: sage token create --as NAME, then: {TOKEN}=TOKEN sage watch"),
        )
    })?;
    let server = Server { client: client()?, address: address.trim_end_matches('/').to_owned(), token };
    runtime()?.block_on(server.follow(watch))
}

fn is_comment(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b":")
}

impl Server {
    async fn follow(&self, watch: &mut Watch) -> Result<(), Failure> {
        loop {
            // First the ear, then the eye: what happens in between is heard.
            let mut events = self.ask("/v1/events").await?;
            if !self.look(watch).await? {
                return print("no run yet; next: sage submit FILE\n");
            }
            loop {
                if let Some(ended) = watch.ended() {
                    return ended;
                }
                match tokio::time::timeout(PATIENCE, events.chunk()).await {
                    Err(_) => {}
                    // Comments only show that somebody is there.
                    Ok(Ok(Some(heard))) if heard.split(|byte| *byte == b'\n').all(is_comment) => {}
                    Ok(Ok(Some(_))) => {
                        self.look(watch).await?;
                    }
                    // The server stopped or the connection broke: it is asked anew, and says so if it is gone.
                    Ok(Ok(None) | Err(_)) => break,
                }
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }

    /// Tells what is new; whether there is any run.
    async fn look(&self, watch: &mut Watch) -> Result<bool, Failure> {
        let numbers = match watch.run {
            Some(run) => vec![run],
            None => self.runs().await?,
        };
        for number in numbers.iter().copied().filter(|number| watch.wants(*number)).collect::<Vec<_>>() {
            let run = self.object(&format!("/v1/runs/{number}")).await?;
            watch.look(run)?;
        }
        Ok(!numbers.is_empty())
    }

    /// The numbers of all runs.
    async fn runs(&self) -> Result<Vec<u64>, Failure> {
        let (mut numbers, mut after) = (Vec::new(), 0);
        loop {
            let page = self.object(&format!("/v1/runs?limit={AT_A_TIME}&after={after}")).await?;
            let runs = page["runs"].as_array().into_iter().flatten();
            numbers.extend(runs.filter_map(|run| run["run"].as_u64()));
            match page["next"].as_u64() {
                Some(next) if next > after => after = next,
                _ => return Ok(numbers),
            }
        }
    }

    async fn object(&self, path: &str) -> Result<Value, Failure> {
        let answer = self.ask(path).await?;
        let text = answer.text().await.map_err(|_| self.unreachable())?;
        serde_json::from_str(&text).map_err(|_| self.stranger())
    }

    async fn ask(&self, path: &str) -> Result<Response, Failure> {
        let asked = self.client.get(format!("{}{path}", self.address)).bearer_auth(&self.token).send();
        let answer = asked.await.map_err(|_| self.unreachable())?;
        let code = match answer.status() {
            status if status.is_success() => return Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => 13,
            StatusCode::NOT_FOUND => 14,
            _ => 1,
        };
        let text = answer.text().await.unwrap_or_default();
        let detail =
            serde_json::from_str::<Value>(&text).ok().and_then(|problem| Some(problem["detail"].as_str()?.to_owned()));
        Err(detail.map_or_else(|| self.stranger(), |message| Failure::Engine { message, code }))
    }

    fn unreachable(&self) -> Failure {
        let message = format!("no server answers at {}; start it with: sage serve", quoted(&self.address));
        Failure::Engine { message, code: 69 }
    }

    fn stranger(&self) -> Failure {
        let message = format!("what answers at {} is no server of sage; name it with --server", quoted(&self.address));
        Failure::Engine { message, code: 69 }
    }
}
