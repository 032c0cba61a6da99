//! A layer for HTTP clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;
use wayleave_admission::request::ClientConnection;

use crate::body::GateBody;
use crate::gate::{Client, Gate};
use crate::head::received_head;
use crate::refused::Refused;

/// Asks the gate about each request of the clients that it is laid around, and shows it each response.
///
/// A refused request is not sent: its response is the refusal, which has [`Refused`](crate::Refused) among its extensions. Put the
/// layer around whatever sends one request, below anything that repeats requests or follows redirects: each of those requests
/// needs its own verdict. Above it they would be sent unseen.
#[derive(Clone, Debug)]
pub struct GateLayer {
    gate: Gate,
    connection: Arc<ClientConnection>,
}

/// An HTTP client with the gate in front.
#[derive(Clone, Debug)]
pub struct GateService<S> {
    inner: S,
    layer: GateLayer,
}

impl GateLayer {
    /// Creates the layer for the requests of this client.
    pub fn new(gate: Gate, client: &Client) -> Self {
        let mut connection = ClientConnection::clone(&client.0);
        // Each response passes here.
        if let Some(gateway) = &mut connection.gateway {
            gateway.shows_responses = true;
        }
        Self { gate, connection: Arc::new(connection) }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = GateService<S>;

    fn layer(&self, inner: S) -> GateService<S> {
        GateService { inner, layer: self.clone() }
    }
}

impl<S, A, B> Service<Request<A>> for GateService<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    A: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    type Response = Response<GateBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // The one that is ready: a clone need not be.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let received = received_head(&parts);
            let admitting = layer.gate.admit_received(&layer.connection, received);
            let admitted = match admitting.await {
                Ok(admitted) => admitted,
                Err(refused) => return Ok(refusal(*refused)),
            };
            admitted.sent();
            let response = inner.call(Request::from_parts(parts, body)).await?;
            Ok(admitted.judge(response).await.unwrap_or_else(|refused| refusal(*refused)))
        })
    }
}

/// Returns the response in place of one that is not to be had.
fn refusal<B: Body<Data = Bytes>>(refused: Refused) -> Response<GateBody<B>> {
    let extension = refused.clone();
    let mut response = refused.into_response().map(GateBody::own);
    response.extensions_mut().insert(extension);
    response
}
