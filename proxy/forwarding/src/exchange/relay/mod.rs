//! Relays both bodies at the same time: the client's to the origin, the origin's to the client.

mod client_rate;
mod context;
mod download;
mod error;
mod interim;
mod origin_reader;
mod progress;
mod upload;
mod watch;

use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;

use wayleave_http_wire::http1::BodyFraming;
use wayleave_http_wire::http1::oddities::Oddities;
use wayleave_transport::http::downstream::Downstream;
use wayleave_upstream::{UpstreamReader, UpstreamWriter};

pub(super) use self::context::RelayContext;
use self::download::{DownloadEnd, ResponseRelay};
pub(crate) use self::error::RelayError;
use self::origin_reader::OriginReader;
use self::progress::RelayProgress;
use self::upload::RequestRelay;
pub(super) use self::watch::ResponseWatch;

/// A response that reached the client completely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelayedResponse {
    pub(crate) status: u16,
    /// The repairs that it needed.
    pub(crate) oddities: Oddities,
    pub(crate) connection_serves_again: bool,
}

/// Sends the client's body to the origin, and the origin's response to the client; until a 101, after which both sides speak
/// another protocol.
pub(super) async fn relay(
    context: RelayContext<'_>,
    watch: &mut ResponseWatch<'_, '_>,
    client: &mut Downstream,
    writer: &mut UpstreamWriter,
    reader: &mut UpstreamReader,
) -> Result<RelayedResponse, RelayError> {
    let RelayContext { received, timeout, byte_meter, slot, .. } = context;
    let progress = RelayProgress::default();
    // Without a body the head was all there is to send, and the upload only watches the client.
    let has_no_body = received.framing() == BodyFraming::Length(0);
    progress.is_upload_complete.store(has_no_body, Ordering::Relaxed);
    let request = RequestRelay {
        body: &mut client.reader,
        sent: &mut client.sent_body,
        writer,
        progress: &progress,
        slot,
        timeout,
    };
    let origin =
        OriginReader { reader: &mut *reader, received, timeout, byte_meter, progress: &progress };
    let response = ResponseRelay::new(context, watch, origin);
    let upload = request.run();
    let download = response.run(&mut client.writer);
    let DownloadEnd { status, leaves_connection_usable } =
        both(pin!(upload), pin!(download)).await?;
    let is_upload_complete = progress.is_upload_complete.load(Ordering::Relaxed);
    let connection_serves_again = is_upload_complete && leaves_connection_usable;
    Ok(RelayedResponse { status, oddities: reader.oddities(), connection_serves_again })
}

/// Drives both directions until the response is complete or one of them breaks the exchange. The caller pins them: taken by
/// value, they would occupy this future, and so that of every exchange, twice.
async fn both(
    mut upload: Pin<&mut impl Future<Output = RelayError>>,
    mut download: Pin<&mut impl Future<Output = Result<DownloadEnd, RelayError>>>,
) -> Result<DownloadEnd, RelayError> {
    let mut is_uploading = true;
    loop {
        tokio::select! {
            biased;
            done = &mut download => return done,
            broken = &mut upload, if is_uploading => match broken {
                // The origin may have answered before it stopped reading.
                RelayError::Upstream { .. } => is_uploading = false,
                broken => return Err(broken),
            },
        }
    }
}
