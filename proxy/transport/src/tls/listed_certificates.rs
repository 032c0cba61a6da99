//! Origins' certificates that the operator lists themselves, instead of an authority that issued them.
//!
//! A self-signed certificate that says it is an authority, as `openssl req -x509` makes them, cannot be a server's by RFC
//! 5280, so webpki refuses it. OpenSSL and browsers accept one that is listed as trusted.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::time::ASN1Time;

/// A verifier that accepts certificates of the roots, and also a certificate that is listed as it is.
#[derive(Debug)]
pub struct ListedCertificates {
    issued: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ListedCertificates {
    /// Adds the `listed` certificates to those that `issued` accepts.
    pub fn new(issued: Arc<WebPkiServerVerifier>, listed: Vec<CertificateDer<'static>>) -> Self {
        Self { issued, listed }
    }
}

impl ServerCertVerifier for ListedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.issued.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // Whatever else is wrong with it, such as its purpose, remains wrong.
            Err(Error::InvalidCertificate(
                CertificateError::Other(_) | CertificateError::UnknownIssuer,
            )) if self.listed.contains(end_entity) => {
                check_dates(end_entity, now)?;
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}

fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|_| CertificateError::BadEncoding)?;
    let seconds = |time: ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let at = |time| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds(time)));
    let (not_before, not_after) =
        (at(parsed.validity().not_before), at(parsed.validity().not_after));
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    use rustls::RootCertStore;

    use super::*;
    use crate::tls;

    const YEAR: u64 = 365 * 24 * 60 * 60;

    /// Returns a self-signed certificate for `a.test`, valid from 2020 to 2030, that says it is an authority.
    fn self_signed() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) =
            (date_time_ymd(2020, 1, 1), date_time_ymd(2030, 1, 1));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn verified(
        listed: &CertificateDer<'static>,
        presented: &CertificateDer<'static>,
        name: &'static str,
        year: u64,
    ) -> Result<(), CertificateError> {
        let mut roots = RootCertStore::empty();
        roots.add(listed.clone()).unwrap();
        let issued =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider()).build();
        let verifier = ListedCertificates::new(issued.unwrap(), vec![listed.clone()]);
        let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * YEAR + YEAR / 2));
        let name = ServerName::try_from(name).unwrap();
        match verifier.verify_server_cert(presented, &[], &name, &[], now) {
            Ok(_) => Ok(()),
            Err(Error::InvalidCertificate(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_listed_self_signed_authority_is_a_servers_certificate() {
        let listed = self_signed();
        assert_eq!(verified(&listed, &listed, "a.test", 2026), Ok(()));
        let other_name = verified(&listed, &listed, "b.test", 2026).unwrap_err();
        assert!(matches!(other_name, CertificateError::NotValidForNameContext { .. }));
        let expired = verified(&listed, &listed, "a.test", 2031).unwrap_err();
        assert!(matches!(expired, CertificateError::ExpiredContext { .. }), "{expired:?}");
        let early = verified(&listed, &listed, "a.test", 2018).unwrap_err();
        assert!(matches!(early, CertificateError::NotValidYetContext { .. }), "{early:?}");
    }

    #[test]
    fn another_self_signed_authority_is_refused() {
        assert!(verified(&self_signed(), &self_signed(), "a.test", 2026).is_err());
    }
}
