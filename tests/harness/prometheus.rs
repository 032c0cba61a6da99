//! Debian's Prometheus on a free port, which scrapes one proxy often and has our rules.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::client::Wire;
use super::tools::{clean, program, project};
use super::{Wayleave, eventually};

/// A running Prometheus; killed when dropped, its log printed if the test fails.
pub struct Prometheus {
    address: SocketAddr,
    child: Child,
    dir: TempDir,
}

impl Prometheus {
    /// Starts scraping `proxy` as the job `wayleave`, and waits for two scrapes.
    #[track_caller]
    pub fn scraping(proxy: &Wayleave) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let log = std::fs::File::create(dir.path().join("log")).expect("it can be written");
        let config = dir.path().join("prometheus.yml");
        let rules = project().join("dashboards/wayleave-rules.yaml");
        let text = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}\n\
             rule_files: [{rules:?}]\n\
             scrape_configs: [{{job_name: wayleave, static_configs: [{{targets: [\"{}\"]}}]}}]\n",
            proxy.admin
        );
        std::fs::write(&config, text).expect("it can be written");
        let child = Self::command(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus can be started");
        let mut prometheus = Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), child, dir };
        prometheus.wait_until_ready();
        prometheus
    }

    fn command(dir: &TempDir) -> Command {
        let mut command = clean(program("prometheus"));
        let file = |name: &str| dir.path().join(name).display().to_string();
        command
            .arg(format!("--config.file={}", file("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", file("data")))
            .arg("--web.listen-address=127.0.0.1:0");
        command
    }

    #[track_caller]
    fn wait_until_ready(&mut self) {
        eventually("prometheus is ready and has logged its address", || {
            let log = self.log();
            if !log.contains("Server is ready to receive web requests") {
                return false;
            }
            let line = log.lines().find(|line| line.contains("msg=\"Listening on\""));
            let Some((_, address)) = line.and_then(|line| line.split_once("address=")) else {
                return false;
            };
            let address = address.split(' ').next().and_then(|text| text.parse().ok());
            self.address = address.expect("an address and a port");
            true
        });
        eventually("wayleave has been scraped twice", || {
            let scrapes = self.query("count_over_time(up{job=\"wayleave\"}[1m])");
            scrapes.first().is_some_and(|(_, scrapes)| *scrapes >= 2.0)
        });
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Returns `data` of a response of the HTTP API.
    #[track_caller]
    pub fn api(&self, path: &str) -> Value {
        let mut wire = Wire::connect(self.address);
        wire.send(format!(
            "GET /api/v1/{path} HTTP/1.1\r\nHost: prometheus\r\nConnection: close\r\n\r\n"
        ));
        let mut answer = wire.response().json();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].take()
    }

    /// Returns the series of a query now, with their labels and values.
    #[track_caller]
    pub fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("query", expression)
            .finish();
        let data = self.api(&format!("query?{query}"));
        let series = data["result"].as_array().expect("a vector");
        let value = |series: &Value| series["value"][1].as_str()?.parse().ok();
        let sample = |series: &Value| Some((series["metric"].clone(), value(series)?));
        series.iter().filter_map(sample).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _gone = self.child.kill();
        let _status = self.child.wait();
        if std::thread::panicking() {
            eprintln!("---- prometheus' log ----\n{}", self.log());
        }
    }
}
