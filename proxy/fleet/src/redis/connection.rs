//! The connection to one server or to a cluster. Only a beat opens it, and every call has a timeout.
//!
//! redis-rs also has connections that reconnect by themselves. Calls wait for that, for a second or more, whatever their timeout.
//! So this uses the kind that never reconnects: once it is closed, every call fails at once until the next beat.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, IntoConnectionInfo, RedisError, RedisResult,
    ServerErrorKind, TlsCertificates, Value,
};
use tokio::time::timeout;
use wayleave_transport::http::transport::{UNACKNOWLEDGED_TIMEOUT, keepalive};
use wayleave_transport::tls;
use wayleave_transport::tls::roots::system_roots;

use super::failure;
use super::scripts::LuaScript;
use crate::engine::EngineFailure;

/// The time to connect, log in and, for a cluster, read its map of hash slots.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of the engine, with the credentials to log in.
#[derive(Clone)]
pub struct RedisAddress {
    /// The URLs, `redis://` or `rediss://`; several only for a cluster.
    pub urls: Vec<String>,
    /// Whether it is a cluster.
    pub is_cluster: bool,
    /// The password, which replaces that of the URLs.
    pub password: Option<String>,
    /// Certificates (PEM) that are trusted in addition to the system's roots.
    pub ca: Option<Vec<u8>>,
}

impl std::fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the URLs, which may have a password.
        f.debug_struct("RedisAddress").field("is_cluster", &self.is_cluster).finish_non_exhaustive()
    }
}

enum RedisClient {
    Server(Box<Client>),
    Cluster(Box<ClusterClient>),
}

#[derive(Clone)]
enum RedisLink {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A connection that may be open or closed.
pub(super) struct RedisConnection {
    address: RedisAddress,
    link: ArcSwapOption<RedisLink>,
    timeout: Duration,
    is_tls: bool,
}

impl RedisConnection {
    /// Creates a closed connection.
    pub(super) fn new(address: &RedisAddress, timeout: Duration) -> Result<Self, EngineFailure> {
        // redis-rs uses the process's default provider. An error means that there is one already.
        let _installed = rustls::crypto::CryptoProvider::clone(&tls::provider()).install_default();
        build_client(address).map_err(|error| EngineFailure::Denied(error.to_string()))?;
        Ok(Self {
            address: address.clone(),
            link: ArcSwapOption::empty(),
            timeout,
            is_tls: address.urls.iter().any(|url| url.starts_with("rediss:")),
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.link.load().is_some()
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.address.is_cluster
    }

    /// Opens the connection, in place of the one before.
    pub(super) async fn open(&self) -> Result<(), EngineFailure> {
        let opening = async {
            // Built each time: the system's roots may have changed.
            Ok(match build_client(&self.address)? {
                RedisClient::Server(client) => {
                    // The timeout of an answer is that of `attempt`.
                    let config = AsyncConnectionConfig::new()
                        .set_connection_timeout(Some(CONNECT_TIMEOUT))
                        .set_response_timeout(None);
                    let opening = client.get_multiplexed_async_connection_with_config(&config);
                    RedisLink::Server(opening.await?)
                }
                RedisClient::Cluster(client) => {
                    RedisLink::Cluster(client.get_async_connection().await?)
                }
            })
        };
        let connect_failure =
            |error: RedisError| failure::connect_failure(&error, self.is_tls, CONNECT_TIMEOUT);
        let opened: Result<RedisResult<RedisLink>, _> = timeout(CONNECT_TIMEOUT, opening).await;
        let link = opened
            .map_err(|_| failure::silence_failure(self.is_tls, CONNECT_TIMEOUT))?
            .map_err(connect_failure)?;
        self.link.store(Some(Arc::new(link)));
        // A plain connection to a TLS port succeeds, so send something. EVAL, because a missing right to it would only show
        // after the server restarts and has lost its scripts.
        let mut eval = redis::cmd("EVAL");
        let evaluated = match self.attempt(eval.arg("return 1").arg(0)).await {
            Ok(answer) => answer.map(drop).map_err(connect_failure),
            Err(failure) => Err(failure),
        };
        if evaluated.is_err() {
            self.close();
        }
        evaluated
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        self.link.store(None);
    }

    /// Sends a command and returns the answer.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, EngineFailure> {
        self.attempt(command).await?.map_err(|error| failure::command_failure(&error))
    }

    /// Runs a script by its hash, and sends its text if the server does not know it.
    pub(super) async fn run(
        &self,
        script: &LuaScript,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, EngineFailure> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len()).arg(keys);
            for argument in arguments {
                command.arg(*argument);
            }
            command
        };
        let mut answer = self.attempt(&command("EVALSHA", &script.hash)).await?;
        // A server that was restarted has forgotten its scripts.
        let no_script = ErrorKind::Server(ServerErrorKind::NoScript);
        if answer.as_ref().is_err_and(|error| error.kind() == no_script) {
            answer = self.attempt(&command("EVAL", script.code)).await?;
        }
        answer.map_err(|error| failure::script_failure(&error, script))
    }

    /// Sends a command. The outer error is a timeout or a closed connection, the inner one the server's.
    async fn attempt(&self, command: &Cmd) -> Result<RedisResult<Value>, EngineFailure> {
        let link = self
            .link
            .load_full()
            .ok_or_else(|| EngineFailure::Connection("not connected".to_owned()))?;
        // Its clones share one connection, and a query needs a mutable one.
        let mut own = RedisLink::clone(&link);
        let query = async {
            match &mut own {
                RedisLink::Server(connection) => command.query_async(connection).await,
                RedisLink::Cluster(connection) => command.query_async(connection).await,
            }
        };
        let answer: RedisResult<Value> =
            timeout(self.timeout, query).await.map_err(|_| EngineFailure::Timeout)?;
        // A cluster has connections to other servers, which still work.
        if let Err(error) = &answer
            && !self.is_cluster()
            && (error.is_io_error() || error.is_connection_dropped())
        {
            // Unless a beat has opened another connection meanwhile.
            let current = self.link.load();
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &link)) {
                self.close();
            }
        }
        Ok(answer)
    }
}

fn build_client(address: &RedisAddress) -> RedisResult<RedisClient> {
    let certificates = address
        .ca
        .as_ref()
        .map(|ca| TlsCertificates { client_tls: None, root_cert: Some(with_system_roots(ca)) });
    let mut infos = Vec::new();
    for url in &address.urls {
        let info = url.as_str().into_connection_info()?;
        let mut settings = info.redis_settings().clone().set_skip_set_lib_name();
        if let Some(password) = &address.password {
            settings = settings.set_password(password);
        }
        infos.push(info.set_redis_settings(settings).set_tcp_settings(tcp_settings()));
    }
    if address.is_cluster {
        // Retries would exceed the timeout; the callers repeat the calls that have to be repeated.
        let mut builder =
            ClusterClientBuilder::new(infos).retries(0).connection_timeout(CONNECT_TIMEOUT);
        // Its connections to servers that the URLs do not name.
        builder = builder.tcp_settings(tcp_settings());
        if let Some(certificates) = certificates {
            builder = builder.certs(certificates);
        }
        return Ok(RedisClient::Cluster(Box::new(builder.build()?)));
    }
    let Some(info) = infos.into_iter().next() else {
        return Err((ErrorKind::InvalidClientConfig, "no URL").into());
    };
    let client = match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates)?,
        None => Client::open(info)?,
    };
    Ok(RedisClient::Server(Box::new(client)))
}

/// Returns the options that all our long-lived sockets have.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive())
        .set_user_timeout(UNACKNOWLEDGED_TIMEOUT)
}

/// Returns these certificates and the system's roots as PEM: redis-rs trusts nothing else once it is given any.
fn with_system_roots(ca: &[u8]) -> Vec<u8> {
    let mut all = ca.to_vec();
    for certificate in system_roots() {
        let text = base64::engine::general_purpose::STANDARD.encode(certificate);
        all.extend_from_slice(b"\n-----BEGIN CERTIFICATE-----\n");
        for line in text.as_bytes().chunks(64) {
            all.extend_from_slice(line);
            all.push(b'\n');
        }
        all.extend_from_slice(b"-----END CERTIFICATE-----\n");
    }
    all
}
