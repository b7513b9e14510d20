//! What a server sends as a stream of bytes: backups, and logs of the ledger.

use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::client::Client;
use crate::error::{Cause, Error, Lost};
use crate::request::Request;
use crate::retry::is_final;
use crate::send::{Failure, media_type};

/// The bytes of a backup, from [`Client::backup`]: what they mean is in `docs/formats/backup.md`.
///
/// They are the whole backup only once [`Backup::next`] has returned `None`. Whether the backup is
/// intact shows when it is read.
#[derive(Debug)]
pub struct Backup(Download);

impl Backup {
    pub(crate) async fn open(client: &Client) -> Result<Self, Error> {
        let uri = client.uri(&["backup"], &[])?;
        Download::open(client, uri, "application/octet-stream", "backup").await.map(Self)
    }

    /// The next bytes; `None` at the end. After an error there are no more.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.0.next().await
    }
}

/// The bytes of a ledger's log, from [`Ledger::export`](crate::Ledger::export): what they mean is in
/// `docs/formats/ledger.md`. The last line says that nothing was cut off.
#[derive(Debug)]
pub struct Export(Download);

impl Export {
    pub(crate) async fn open(client: &Client, uri: Uri) -> Result<Self, Error> {
        Download::open(client, uri, "application/jsonl", "export").await.map(Self)
    }

    /// The next bytes; `None` at the end. After an error there are no more.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.0.next().await
    }
}

#[derive(Debug)]
struct Download {
    client: Client,
    body: Option<Incoming>,
}

impl Download {
    /// Asks once: a server takes one backup at a time, and says so (503, `busy`).
    async fn open(
        client: &Client,
        uri: Uri,
        media: &str,
        what: &'static str,
    ) -> Result<Self, Error> {
        let request = Request::get(uri);
        let time = client.inner.timeouts.answer;
        let response = match timeout(time, client.inner.send(&request)).await {
            Err(_) => return Err(lost(Cause::TimedOut(time))),
            Ok(Err(Failure::Cause(cause))) => return Err(lost(cause)),
            Ok(Err(Failure::Malformed(malformed))) => return Err(Error::Malformed(malformed)),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if status == StatusCode::OK {
            if media_type(response.headers()) != Some(media) {
                let what = format!("it is not the {what} that was asked for");
                return Err(Error::Malformed(request.malformed(status, what)));
            }
            return Ok(Self { client: client.clone(), body: Some(response.into_body()) });
        }
        let collected = timeout(time, client.inner.collect(&request, response)).await;
        let answer = match collected {
            Err(_) => return Err(lost(Cause::TimedOut(time))),
            Ok(Err(Failure::Cause(cause))) => return Err(lost(cause)),
            Ok(Err(Failure::Malformed(malformed))) => return Err(Error::Malformed(malformed)),
            Ok(Ok(answer)) => answer,
        };
        if is_final(status, answer.problem()) {
            return Err(answer.refusal().into());
        }
        Err(lost(Cause::Unavailable { status, problem: answer.into_problem() }))
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let silence = self.client.inner.timeouts.silence;
        while let Some(body) = &mut self.body {
            let frame = timeout(silence, body.frame()).await;
            if !matches!(frame, Ok(Some(Ok(_)))) {
                self.body = None;
            }
            match frame {
                Err(_) => return Err(lost(Cause::TimedOut(silence))),
                Ok(None) => {}
                Ok(Some(Err(error))) => return Err(lost(Cause::Broken(Box::new(error)))),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                    _ => {}
                },
            }
        }
        Ok(None)
    }
}

fn lost(source: Cause) -> Error {
    Error::Transport(Lost { attempts: 1, may_have_arrived: false, identity: None, source })
}
