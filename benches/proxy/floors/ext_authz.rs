//! floor-ext-authz: answers every question of a gateway with leave, by gRPC (tonic) and by HTTP (hyper): the least that a verdict costs.

#[allow(dead_code, reason = "the messages of the proxy, of which this needs some")]
#[path = "../../../proxy/gateway/src/envoy.rs"]
mod envoy;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use clap::Parser;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Status, codegen::BoxFuture};
use tonic_prost::ProstCodec;

use crate::envoy::{CHECK, CheckRequest, CheckResponse, HttpResponse, OkResponse, RpcStatus};

/// The command line.
#[derive(Debug, Parser)]
struct Options {
    #[arg(long)]
    grpc: SocketAddr,
    #[arg(long)]
    http: SocketAddr,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let listener = TcpListener::bind(options.http).await?;
    tokio::spawn(async move { serve_http(listener).await });
    tonic::transport::Server::builder()
        .tcp_nodelay(true)
        .add_service(Authorization)
        .serve(options.grpc)
        .await?;
    Ok(())
}

async fn serve_http(listener: TcpListener) {
    while let Ok((tcp, _)) = listener.accept().await {
        // A connection without it is only slower.
        let _ = tcp.set_nodelay(true);
        let service = service_fn(|_: Request<Incoming>| {
            ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(tcp), service));
    }
}

/// The service.
#[derive(Clone)]
struct Authorization;

impl NamedService for Authorization {
    const NAME: &'static str = "envoy.service.auth.v3.Authorization";
}

impl tower::Service<Request<Body>> for Authorization {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path() != CHECK {
                return Ok(Status::unimplemented("only Check").into_http());
            }
            let mut grpc = Grpc::new(ProstCodec::<CheckResponse, CheckRequest>::default());
            Ok(grpc.unary(Leave, request).await)
        })
    }
}

/// The answer to every question.
struct Leave;

impl UnaryService<CheckRequest> for Leave {
    type Response = CheckResponse;
    type Future = Ready<Result<tonic::Response<CheckResponse>, Status>>;

    fn call(&mut self, _: tonic::Request<CheckRequest>) -> Self::Future {
        let status = Some(RpcStatus { code: 0 });
        let http_response = Some(HttpResponse::Ok(OkResponse::default()));
        let leave = CheckResponse { status, http_response };
        ready(Ok(tonic::Response::new(leave)))
    }
}
