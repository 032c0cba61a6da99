//! The robots.txt engine for Python: parsed files, the rules for one crawler, and decisions with their reasons.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use wayleave_robots_txt::{AccessResult, CrawlerRules, Dialect, InvalidUrl, ProductToken, RobotsTxt};

#[pymodule]
mod _engine {
    #[pymodule_export]
    use super::{PyCrawlerRules, PyDecision, PyRobotsTxt};
}

/// A parsed robots.txt.
#[pyclass(frozen, name = "RobotsTxt", module = "wayleave_robots")]
struct PyRobotsTxt(AccessResult);

/// The text of a file, as Python has it.
#[derive(FromPyObject)]
enum FileText {
    #[pyo3(transparent)]
    Bytes(PyBackedBytes),
    #[pyo3(transparent)]
    Text(PyBackedStr),
}

/// One name of a crawler, or several in order of preference.
#[derive(FromPyObject)]
enum CrawlerNames {
    #[pyo3(transparent)]
    One(String),
    #[pyo3(transparent)]
    Several(Vec<String>),
}

impl CrawlerNames {
    fn into_tokens(self) -> PyResult<Vec<ProductToken>> {
        let names = match self {
            Self::One(name) => vec![name],
            Self::Several(names) => names,
        };
        if names.is_empty() {
            return Err(PyValueError::new_err("a crawler needs a name"));
        }
        let token = |name: &String| {
            ProductToken::new(name).map_err(|error| PyValueError::new_err(format!("{name:?}: {error}")))
        };
        names.iter().map(token).collect()
    }
}

#[pymethods]
impl PyRobotsTxt {
    #[new]
    fn parse(py: Python<'_>, data: FileText) -> Self {
        let robots = py.detach(|| match &data {
            FileText::Bytes(bytes) => RobotsTxt::parse(bytes),
            FileText::Text(text) => RobotsTxt::parse(text.as_bytes()),
        });
        Self(AccessResult::from(robots))
    }

    /// Returns the outcome of a fetch that was answered with `status` (RFC 9309 section 2.3.1).
    #[staticmethod]
    #[pyo3(signature = (status, data=None))]
    fn from_status(py: Python<'_>, status: u16, data: Option<FileText>) -> PyResult<Self> {
        match (status, data) {
            // A part of a file is no file.
            (206 | 429 | 500..=599, _) => Ok(Self(AccessResult::Unreachable)),
            (200..=299, Some(data)) => Ok(Self::parse(py, data)),
            (200..=299, None) => Err(PyValueError::new_err("a successful fetch has data")),
            (400..=499, _) => Ok(Self(AccessResult::Unavailable { status })),
            _ => Err(PyValueError::new_err(format!("{status} is not the status of a final response"))),
        }
    }

    /// Returns the outcome of a fetch that failed, which disallows everything.
    #[staticmethod]
    fn unreachable() -> Self {
        Self(AccessResult::Unreachable)
    }

    #[pyo3(signature = (names, *, dialect="rfc9309", all_spellings=false))]
    fn for_crawler(
        &self,
        names: CrawlerNames,
        dialect: &str,
        all_spellings: bool,
    ) -> PyResult<PyCrawlerRules> {
        let dialect: Dialect = dialect.parse().map_err(|_| {
            let known: Vec<_> = Dialect::ALL.iter().map(ToString::to_string).collect();
            PyValueError::new_err(format!("{dialect:?} is none of the dialects {}", known.join(", ")))
        })?;
        let rules = CrawlerRules::new(self.0.clone(), names.into_tokens()?).dialect(dialect);
        Ok(PyCrawlerRules(if all_spellings { rules.all_spellings() } else { rules }))
    }

    #[getter]
    fn sitemaps(&self) -> Vec<String> {
        let robots = self.0.rules(Dialect::Rfc9309);
        robots.map(|robots| robots.sitemaps().collect()).unwrap_or_default()
    }
}

/// The rules of one file for one crawler.
#[pyclass(frozen, name = "CrawlerRules", module = "wayleave_robots")]
struct PyCrawlerRules(CrawlerRules);

#[pymethods]
impl PyCrawlerRules {
    fn allows(&self, url: &str) -> PyResult<bool> {
        self.0.allows(url).map_err(|error| not_a_url(url, &error))
    }

    /// Decides about many URLs without holding the interpreter's lock.
    fn allows_all(&self, py: Python<'_>, urls: Vec<PyBackedStr>) -> Vec<Option<bool>> {
        // One text that is no URL does not lose the answers about the others.
        py.detach(|| urls.iter().map(|url| self.0.allows(url).ok()).collect())
    }

    fn decide(&self, url: &str) -> PyResult<PyDecision> {
        let decision = self.0.decide(url).map_err(|error| not_a_url(url, &error))?;
        Ok(PyDecision {
            allowed: decision.verdict().is_allow(),
            reason: decision.reason().as_str(),
            rule: decision.rule(),
            line: decision.line(),
            group: decision.group(),
            dialect: decision.dialect().to_string(),
        })
    }

    /// Seconds between two requests.
    #[getter]
    fn crawl_delay(&self) -> Option<f64> {
        self.0.crawl_delay().map(|delay| delay.as_secs_f64())
    }
}

fn not_a_url(text: &str, error: &InvalidUrl) -> PyErr {
    PyValueError::new_err(format!("{text:?} is not a URL: {error}"))
}

/// A decision with its reason.
#[pyclass(frozen, name = "Decision", module = "wayleave_robots", get_all)]
struct PyDecision {
    allowed: bool,
    reason: &'static str,
    rule: Option<String>,
    line: Option<u32>,
    group: Vec<String>,
    dialect: String,
}

#[pymethods]
impl PyDecision {
    fn __bool__(&self) -> bool {
        self.allowed
    }

    fn __repr__(&self) -> String {
        let verdict = if self.allowed { "allow" } else { "disallow" };
        match (&self.rule, self.line) {
            (Some(rule), Some(line)) => format!("<Decision {verdict}: line {line}, {rule}>"),
            _ => format!("<Decision {verdict}: {}>", self.reason),
        }
    }
}
