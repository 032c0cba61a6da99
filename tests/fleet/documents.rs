//! Documents of an origin other than robots.txt, shared among nodes.

use super::engines::{Product, Server};
use super::proxies::{node, refresh};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Wayleave, eventually};
use crate::preferences::licence;
use crate::preferences::purposes::{CORPUS, example_bot};

const TDMREP: &str = "http://site.test/.well-known/tdmrep.json";
const LICENCE: &str = "http://licences.test/all.xml";

fn status(proxy: &Wayleave, url: &str) -> u16 {
    proxy.get_as(CORPUS, url).status
}

fn reservation(value: u8) -> Reply {
    Reply::text(format!("[{{\"location\": \"/\", \"tdm-reservation\": {value}}}]"))
}

#[test]
fn reservations_and_licences_are_fetched_once_for_all_nodes() {
    let origin = Origin::start();
    let site = origin.site("site.test").allows_all();
    site.page("/.well-known/tdmrep.json", reservation(1));
    let robots = format!("License: {LICENCE}\nUser-agent: *\nAllow: /\n");
    origin.site("licensed.test").robots(&robots);
    let no_training = licence("<prohibits type=\"usage\">ai-train</prohibits>");
    origin.site("licences.test").page("/all.xml", no_training);
    let server = Server::start(Product::Redis);
    let training = example_bot("corpus", CORPUS).purposes(["train-ai"]);
    let nodes = [(); 4]
        .map(|()| node(&origin, &server, |settings: Settings| settings.with(training.clone())));
    let pages = ["http://site.test/a", "http://licensed.test/a"];
    std::thread::scope(|scope| {
        for node in nodes.iter().cycle().take(12) {
            scope.spawn(move || assert_eq!(pages.map(|url| status(node, url)), [403, 403]));
        }
    });
    assert_eq!([TDMREP, LICENCE].map(|url| origin.count_gets(url)), [1, 1]);
    origin.site("site.test").page("/.well-known/tdmrep.json", reservation(0));
    origin.site("licences.test").page("/all.xml", licence("<permits type=\"usage\">all</permits>"));
    refresh(&nodes[0], "site.test");
    // The node that fetched the licence shares its answer with other origins for five seconds, whoever wants another.
    eventually("the licence is fetched again", || {
        refresh(&nodes[0], "licences.test");
        status(&nodes[0], pages[1]) == 200
    });
    for node in &nodes {
        eventually("it applies what another node fetched", || {
            pages.map(|url| status(node, url)) == [200, 200]
        });
    }
    assert_eq!([TDMREP, LICENCE].map(|url| origin.count_gets(url)), [2, 2]);
}
