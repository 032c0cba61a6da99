//! Looks at a response's head before its client gets it. Preferences on use (`noindex`, say) are judged later, by the labeller
//! that `download` asks.

use wayleave_admission::{Admission, AdmittedHead};
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_upstream::{TargetForm, UpstreamHead, own_response_error};

use super::error::RelayError;
use crate::exchange::headers::UpstreamRequest;
use crate::exchange::sign::RequestSigner;

/// The parts of an exchange that see its response before the client does, and count it.
pub(crate) struct ResponseWatch<'a, 'x> {
    pub(crate) admission: &'a mut Admission<'x>,
    pub(crate) signer: Option<&'a mut RequestSigner<'x>>,
    pub(crate) request: &'a UpstreamRequest<'a>,
    /// Whether the request is signed.
    pub(crate) is_signed: bool,
    pub(crate) target_form: &'a TargetForm,
    /// The number of interim responses that the client did not get.
    pub(crate) dropped_interim: u64,
}

impl ResponseWatch<'_, '_> {
    /// Inspects a response's head, with its fields, as soon as it arrives.
    ///
    /// # Errors
    ///
    /// Returns an error that withholds the response: it is a parent proxy's own, asks for a signature, or is refused.
    pub(super) fn on_head(
        &mut self,
        head: &UpstreamHead,
        fields: &[FieldPair<'_>],
    ) -> Result<AdmittedHead, RelayError> {
        if let Some(error) = self.target_form.parent().and_then(|_| own_response_error(head)) {
            return Err(error.into());
        }
        if let Some(signer) = &mut self.signer
            && signer.accept_request(head, self.request, self.is_signed)
        {
            return Err(RelayError::SignatureRequested);
        }
        Ok(self.admission.on_head(head, fields)?)
    }
}
