//! Fetching over HTTP/2, with the same results as over HTTP/1.1.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::Response;
use http::response::Builder;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use wayleave_lifecycle::{FetchErrorKind, FetchOutcome, FetchRequest};
use wayleave_robots_txt::Origin;

use super::super::*;
use super::http::{Coded, RULES, body, fetcher_at, hasty, identity, kind, trust};

const LIMIT: usize = 500 * 1024;

type Respond = SendResponse<Bytes>;

/// Fetches a robots.txt from a server that offers only HTTP/2 and treats each TLS connection like this.
async fn fetched_from<F>(
    options: FetchConfig,
    serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
) -> FetchOutcome
where
    F: Future<Output = ()> + Send + 'static,
{
    let (mut config, roots) = identity("shop.test");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The first offers only HTTP/1.1.
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream));
            }
        }
    });
    let fetcher = fetcher_at(address, &trust(roots), options);
    let origin = Origin::parse("https://shop.test").unwrap();
    let validators = None;
    fetcher
        .fetch(
            FetchRequest { identity: FetchIdentity::proxy(), resource: origin.into(), validators },
            None,
        )
        .await
        .outcome
}

/// As above, for a server that answers each path like this.
async fn fetched<F>(
    options: FetchConfig,
    answer: impl Fn(String, Respond) -> F + Clone + Send + Sync + 'static,
) -> FetchOutcome
where
    F: Future<Output = ()> + Send + 'static,
{
    let serve = move |stream| {
        let answer = answer.clone();
        async move {
            let mut session = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, respond))) = session.accept().await {
                let request: http::Request<RecvStream> = request;
                tokio::spawn(answer(request.uri().path().to_owned(), respond));
            }
        }
    };
    fetched_from(options, serve).await
}

fn head(response: Builder) -> Response<()> {
    response.body(()).unwrap()
}

fn whole(mut respond: Respond, response: Builder, bytes: &[u8]) {
    let mut stream = respond.send_response(head(response), false).unwrap();
    stream.send_data(Bytes::copy_from_slice(bytes), true).unwrap();
}

/// Sends as fast as the client reads, until it stops.
async fn without_end(mut stream: SendStream<Bytes>) {
    // Much smaller frames end the connection.
    let line = Bytes::from(vec![b'#'; 4096]);
    loop {
        stream.reserve_capacity(line.len());
        let granted = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
        if !matches!(granted, Some(Ok(_))) || stream.send_data(line.clone(), false).is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn redirects_interim_responses_and_codings_are_handled() {
    let rules = Coded::Gzip.encode(RULES).await;
    let outcome = fetched(FetchConfig::default(), move |path, mut respond| {
        let response = Response::builder();
        if path == "/robots.txt" {
            whole(respond, response.status(301).header("location", "/rules"), b"");
        } else {
            let early = Response::builder().status(103).header("link", "</a>");
            respond.send_informational(head(early)).unwrap();
            whole(respond, response.header("content-encoding", "gzip"), &rules);
        }
        std::future::ready(())
    })
    .await;
    assert_eq!(body(&outcome), RULES, "{outcome:?}");
    assert_eq!(outcome.redirects.len(), 1);
    assert_eq!(outcome.uri, "https://shop.test/rules");
}

#[tokio::test]
async fn bodies_are_read_up_to_the_limit_only() {
    let endless = fetched(FetchConfig::default(), |_, mut respond| async move {
        let stream = respond.send_response(Response::new(()), false).unwrap();
        without_end(stream).await;
    });
    let bomb = Coded::Gzip.encode(&vec![b'\n'; 64 << 20]).await;
    let bomb = fetched(FetchConfig::default(), move |_, respond| {
        let response = Response::builder().header("content-encoding", "gzip");
        whole(respond, response, &bomb);
        std::future::ready(())
    });
    for outcome in [bomb.await, endless.await] {
        let body = outcome.body().expect("successful");
        assert_eq!((body.bytes.len(), body.is_cut), (LIMIT, true));
    }
}

#[tokio::test]
async fn huge_heads_and_broken_streams_are_failures() {
    let long = fetched(FetchConfig::default(), |_, respond| {
        let response = Response::builder().header("x", "x".repeat(300_000));
        whole(respond, response, RULES);
        std::future::ready(())
    });
    let many = fetched(FetchConfig::default(), |_, respond| {
        let fields = (0..2_000).fold(Response::builder(), |head, _| head.header("x", "y"));
        whole(respond, fields, RULES);
        std::future::ready(())
    });
    let reset = fetched(FetchConfig::default(), |_, mut respond| {
        respond.send_reset(h2::Reason::INTERNAL_ERROR);
        std::future::ready(())
    });
    let short = fetched(FetchConfig::default(), |_, respond| {
        let response = Response::builder().header("content-length", "1000");
        whole(respond, response, RULES);
        std::future::ready(())
    });
    let broken = [FetchErrorKind::Http, FetchErrorKind::Body].map(Some);
    for outcome in [long.await, many.await, reset.await, short.await] {
        assert!(broken.contains(&kind(&outcome)), "{outcome:?}");
    }
}

#[tokio::test]
async fn slow_servers_time_out() {
    let silent = fetched(hasty(), |_, respond| async move {
        let _open = respond;
        std::future::pending::<()>().await;
    });
    let halfway = fetched(hasty(), |_, mut respond| async move {
        let mut stream = respond.send_response(Response::new(()), false).unwrap();
        stream.send_data(Bytes::from_static(RULES), false).unwrap();
        std::future::pending::<()>().await;
    });
    for outcome in [silent.await, halfway.await] {
        assert_eq!(kind(&outcome), Some(FetchErrorKind::Timeout), "{outcome:?}");
    }
}

#[tokio::test]
async fn endless_interim_responses_time_out() {
    let outcome = fetched(FetchConfig::default(), |_, mut respond| async move {
        let early = || head(Response::builder().status(103).header("x", "x".repeat(1_000)));
        while respond.send_informational(early()).is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(kind(&outcome), Some(FetchErrorKind::Http), "{outcome:?}");
}

#[tokio::test]
async fn a_server_that_reads_nothing_is_abandoned_after_the_fetch() {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let (sender, mut left) = mpsc::unbounded_channel();
    let outcome = fetched_from(hasty(), move |mut stream| {
        let sender = sender.clone();
        async move {
            stream.write_all(&SETTINGS).await.unwrap();
            // Each one has to be answered.
            while stream.write_all(&PING.repeat(100)).await.is_ok() {}
            sender.send(()).unwrap();
        }
    })
    .await;
    assert!(kind(&outcome).is_some(), "{outcome:?}");
    let left = tokio::time::timeout(Duration::from_secs(60), left.recv()).await;
    assert_eq!(left.expect("its connection is closed"), Some(()));
}
