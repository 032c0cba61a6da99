//! Real servers of static files with their default settings, over one document root.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::eventually;
use super::ports::free_address;
use super::tools::{both_streams, clean, node_modules, program, project, python, run, sbin};
use crate::clients::env::build_go;

/// An address of a server.
pub struct Server {
    /// The program, its version, and the options that differ from its defaults.
    pub name: String,
    pub address: SocketAddr,
}

/// Running servers; killed when dropped.
pub struct Servers {
    pub servers: Vec<Server>,
    children: Vec<Child>,
    /// Configurations and logs.
    scratch: PathBuf,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _gone_already = child.kill();
            let _gone_already = child.wait();
        }
    }
}

impl Servers {
    /// Starts all of them with the document root `root`; other files go to `scratch`. Everyone can read both.
    pub fn start(root: &Path, scratch: &Path) -> Self {
        let mut servers =
            Self { servers: Vec::new(), children: Vec::new(), scratch: scratch.to_owned() };
        servers.nginx(root);
        servers.apache(root);
        servers.lighttpd(root);
        servers.python(root);
        servers.node(root);
        servers.go(root);
        for server in &servers.servers {
            eventually(&server.name, || TcpStream::connect(server.address).is_ok());
        }
        servers
    }

    fn nginx(&mut self, root: &Path) {
        let (stock, unmerged) = (free_address(), free_address());
        let scratch = self.scratch.join("nginx");
        std::fs::create_dir(&scratch).expect("it can be made");
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let places: String = kinds.map(|kind| format!("{kind}_temp_path {kind};\n")).concat();
        let root = root.display();
        let config = scratch.join("nginx.conf");
        let text = format!(
            "daemon off; master_process off; pid pid; events {{}}\nhttp {{ access_log off;\n{places}\
             server {{ listen {stock}; root {root}; }}\n\
             server {{ listen {unmerged}; root {root}; merge_slashes off; }} }}\n"
        );
        std::fs::write(&config, text).expect("it can be written");
        let nginx = sbin("nginx");
        let version = version_of(clean(&nginx).arg("-v"), "nginx/");
        let name = format!("nginx {version}");
        self.add(name.clone(), stock);
        self.add(format!("{name}, `merge_slashes off`"), unmerged);
        let mut command = clean(&nginx);
        command.arg("-e").arg(scratch.join("log"));
        command.arg("-p").arg(&scratch).arg("-c").arg(&config);
        self.run(command);
    }

    fn apache(&mut self, root: &Path) {
        let (stock, slashes) = (free_address(), free_address());
        let (root, scratch) = (root.display(), self.scratch.display());
        let modules = ["mpm_event", "authz_core", "dir", "mime"].map(|name| {
            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
        });
        let config = self.scratch.join("apache.conf");
        let text = format!(
            "{}ServerRoot {scratch}\nDefaultRuntimeDir {scratch}\nServerName localhost\n\
             PidFile apache.pid\nErrorLog apache.log\nTypesConfig /dev/null\nThreadsPerChild 4\nThreadLimit 4\nMaxRequestWorkers 4\n\
             Listen {stock}\nListen {slashes}\n<Directory {root}>\nRequire all granted\n</Directory>\n\
             <VirtualHost {stock}>\nDocumentRoot {root}\n</VirtualHost>\n\
             <VirtualHost {slashes}>\nDocumentRoot {root}\nAllowEncodedSlashes On\n</VirtualHost>\n",
            modules.concat()
        );
        std::fs::write(&config, text).expect("it can be written");
        let apache = sbin("apache2");
        let name = format!("Apache {}", version_of(clean(&apache).arg("-v"), "Apache/"));
        self.add(name.clone(), stock);
        self.add(format!("{name}, `AllowEncodedSlashes On`"), slashes);
        let mut command = clean(&apache);
        command.arg("-X").arg("-f").arg(&config);
        self.run(command);
    }

    /// Starts lighttpd with the options of Debian's configuration.
    fn lighttpd(&mut self, root: &Path) {
        let address = free_address();
        let config = self.scratch.join("lighttpd.conf");
        let enabled = [
            "url-normalize-unreserved",
            "url-normalize-required",
            "url-ctrls-reject",
            "url-path-2f-decode",
            "url-path-dotseg-remove",
        ];
        let options = enabled.map(|option| format!("\"{option}\" => \"enable\","));
        let text = format!(
            "server.document-root = {root:?}\nserver.bind = \"{}\"\nserver.port = {}\nserver.http-parseopts = ({})\n",
            address.ip(),
            address.port(),
            options.concat()
        );
        std::fs::write(&config, text).expect("it can be written");
        let lighttpd = sbin("lighttpd");
        let version = version_of(clean(&lighttpd).arg("-v"), "lighttpd/");
        self.add(format!("lighttpd {version}"), address);
        let mut command = clean(&lighttpd);
        command.arg("-D").arg("-f").arg(&config);
        self.run(command);
    }

    fn python(&mut self, root: &Path) {
        let address = free_address();
        let version = version_of(clean(python()).arg("-V"), "Python ");
        self.add(format!("Python {version} `http.server`"), address);
        let mut command = clean(python());
        command.args(["-m", "http.server", "--bind"]);
        command.arg(address.ip().to_string());
        command.arg(address.port().to_string());
        command.arg("--directory").arg(root);
        self.run(command);
    }

    fn node(&mut self, root: &Path) {
        let version = version_of(clean(program("node")).arg("-v"), "v");
        for module in ["serve-static", "serve-handler"] {
            let address = free_address();
            self.add(format!("Node {version} `{module}`"), address);
            let mut command = clean(program("node"));
            command.arg(project().join("tests/clients/static.cjs"));
            command.arg(module).arg(root);
            command.arg(address.port().to_string());
            command.env("NODE_PATH", node_modules());
            self.run(command);
        }
    }

    fn go(&mut self, root: &Path) {
        let address = free_address();
        let version = version_of(clean(program("go")).arg("version"), "version go");
        self.add(format!("Go {version} `http.FileServer`"), address);
        let mut command = clean(build_go(&project().join("tests/clients/static.go")));
        command.arg(root).arg(address.to_string());
        self.run(command);
    }

    fn add(&mut self, name: String, address: SocketAddr) {
        self.servers.push(Server { name, address });
    }

    fn run(&mut self, mut command: Command) {
        let log = self.scratch.join(format!("{}.out", self.children.len()));
        let log = std::fs::File::create(log).expect("it can be written");
        let both = log.try_clone().expect("a file can be opened twice");
        command.stdin(Stdio::null()).stdout(log).stderr(both);
        let child = command.spawn();
        self.children.push(child.unwrap_or_else(|error| panic!("{command:?}: {error}")));
    }
}

/// Returns the version that a command prints after `before`.
fn version_of(command: &mut Command, before: &str) -> String {
    // Some print it to standard error.
    let text = both_streams(&run(command, b"", Duration::from_secs(60)));
    let (_, after) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text}"));
    let is_version = |c: char| c.is_ascii_digit() || c == '.';
    let end = after.find(|c: char| !is_version(c)).unwrap_or(after.len());
    after[..end].to_owned()
}
