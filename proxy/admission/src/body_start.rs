//! The start of a response's body, read before its client gets any of it: a page may state preferences, and a subresource of
//! a page must not begin as a document does.

use bytes::Bytes;
use wayleave_decision::{ContentStart, Refusal, SubresourceKind, content_start};
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_http_wire::page::PageBuffer;
use wayleave_transport::http::downstream::ResponseField;
use wayleave_upstream::UpstreamHead;

use super::admission::{Admission, ContentTreatment};
use super::response_policy::{LabelStep, ResponseLabeller};

/// The start of a body that shows whether it is a document: the usual one, and one for white space and comments. A licence in
/// front of a script has a few KiB.
const DOCUMENT_START_BYTES: [usize; 2] = [512, 64 * 1024];

/// The body of a response, whose start may have to be read before its client gets any of it.
pub trait SeenBody: Send {
    /// The error of a body that cannot be read: its connection broke, say.
    type Error: Send;

    /// Reads the next part, which is not empty; `None` at the end.
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, Self::Error>> + Send;

    /// Returns whether the body is known to have ended, before `next_chunk` says so.
    fn has_ended(&self) -> bool {
        false
    }

    /// Buffers the start of the body, as far as it is wanted. Returns whether that is all of it.
    fn buffer(
        &mut self,
        page: &mut PageBuffer,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send {
        buffer_start(self, page)
    }
}

/// Buffers the start of a body, as [`SeenBody::buffer`] does by default.
///
/// # Errors
///
/// Returns the body's own error.
pub async fn buffer_start<B: SeenBody + ?Sized>(
    body: &mut B,
    page: &mut PageBuffer,
) -> Result<bool, B::Error> {
    while page.wants_more() {
        match body.next_chunk().await? {
            Some(chunk) => page.take(&chunk),
            None => return Ok(true),
        }
    }
    Ok(body.has_ended())
}

/// The buffered start of a body, and whether it is the whole body.
#[derive(Debug, Default)]
pub struct BodyStart {
    pub bytes: Bytes,
    pub has_ended: bool,
}

/// A reason why the client gets nothing of a response whose start was read.
#[derive(Debug)]
pub enum StartError<E> {
    Refused(Box<Refusal>),
    /// The body could not be read.
    Body(E),
}

impl<E> From<Box<Refusal>> for StartError<E> {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::Refused(refusal)
    }
}

impl Admission<'_> {
    /// Returns whether the response cannot be judged by its head alone.
    pub fn wants_start(&self, content: &ContentTreatment) -> bool {
        self.labeller.is_some() || matches!(content, ContentTreatment::RefuseDocument(..))
    }

    /// Judges a response by its head and, as far as that may say more, by the start of its body. Returns the fields that label
    /// it, and the start that was read.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a response that the client must not get, or the body's own error.
    pub async fn judge_start<B: SeenBody>(
        &mut self,
        head: &UpstreamHead,
        fields: &[FieldPair<'_>],
        content: &ContentTreatment,
        body: &mut B,
    ) -> Result<(Vec<ResponseField<'static>>, BodyStart), StartError<B::Error>> {
        let (labels, start) = match &mut self.labeller {
            Some(labeller) => label(labeller, head, body).await?,
            None => Default::default(),
        };
        let ContentTreatment::RefuseDocument(kind, refusal) = content else {
            return Ok((labels, start));
        };
        let checked = check_start(*kind, fields, start, body).await.map_err(StartError::Body)?;
        let start = checked.ok_or_else(|| refusal.clone())?;
        Ok((labels, start))
    }
}

/// Returns the fields that label the response, and the start of the body that had to be read for them.
async fn label<B: SeenBody>(
    labeller: &mut ResponseLabeller<'_>,
    head: &UpstreamHead,
    body: &mut B,
) -> Result<(Vec<ResponseField<'static>>, BodyStart), StartError<B::Error>> {
    match labeller.judge(head).await? {
        LabelStep::Relay(labels) => Ok((labels, BodyStart::default())),
        LabelStep::ReadPage(mut page) => {
            let has_ended = body.buffer(&mut page).await.map_err(StartError::Body)?;
            let labels = labeller.judge_page(&page).await?;
            Ok((labels, BodyStart { bytes: page.into_buffered(), has_ended }))
        }
    }
}

/// Returns the start of the body, of which `start` is here already, once it shows that it is no document. Returns `None` if it
/// is one, or cannot be read.
async fn check_start<B: SeenBody>(
    kind: SubresourceKind,
    fields: &[FieldPair<'_>],
    mut start: BodyStart,
    body: &mut B,
) -> Result<Option<BodyStart>, B::Error> {
    for limit in DOCUMENT_START_BYTES {
        let mut page = PageBuffer::new(fields, limit);
        page.take(&start.bytes);
        if !start.has_ended {
            start.has_ended = body.buffer(&mut page).await?;
        }
        let starts: Vec<_> = page.texts().map(|text| content_start(kind, &text)).collect();
        if page.is_doubtful() || starts.contains(&ContentStart::Document) {
            return Ok(None);
        }
        // Only the end shows that nothing follows white space.
        let is_whole = start.has_ended && page.wants_more();
        start.bytes = page.into_buffered();
        if is_whole || !starts.contains(&ContentStart::Open) {
            return Ok(Some(start));
        }
    }
    Ok(None)
}
