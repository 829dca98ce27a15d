//! A server of Kafka, with Kafka's own programs as other clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::queue_broker::Service;
use crate::support::{free_port, places, skipped, until};

/// What the Java machine gets: little memory, and quick to start.
const JAVA: [&str; 5] =
    ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp"];

/// One server of Kafka, which is a cluster. It ends with this process.
pub(crate) struct Kafka {
    pub(crate) folder: TempDir,
    pub(crate) ports: [u16; 6],
    /// Its end of input ends the server.
    keeper: Child,
}

impl Kafka {
    fn jars() -> PathBuf {
        places().cache.join("kafka")
    }

    /// Whether it is here.
    pub(crate) fn is_here(test: &str) -> bool {
        let found = Kafka::jars().is_dir() && Command::new("java").arg("-version").output().is_ok();
        if !found {
            skipped(&format!("queue_kafka::{test}"), "no Kafka: cargo xtask setup --all-servers installs it");
        }
        found
    }

    /// The one that tests share, each with topics of its own.
    pub(crate) fn shared() -> &'static Kafka {
        static SHARED: OnceLock<Kafka> = OnceLock::new();
        SHARED.get_or_init(Kafka::start)
    }

    pub(crate) fn start() -> Kafka {
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        let ports = [(); 6].map(|()| free_port());
        std::fs::write(folder.path().join("conf"), configuration(folder.path(), ports)).unwrap();
        let made = Command::new("sh")
            .args(["-c", "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=b \
                   -keyout key -out pem -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE && \
                   cat key pem > both"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let format = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", "conf"];
        let login = "SCRAM-SHA-256=[name=scram,password=s3:cret]";
        let formatted = java(folder.path(), &format).args(["--add-scram", login]).output().unwrap();
        assert!(formatted.status.success(), "{formatted:?}");
        let keeper = Kafka::run(folder.path(), ports);
        Kafka { folder, ports, keeper }
    }

    fn run(folder: &Path, ports: [u16; 6]) -> Child {
        let script =
            "\"$@\" > log 2>&1 & exec 2> /dev/null; daemon=$!; read line; kill -9 $daemon; wait $daemon";
        let daemon = java(folder, &["kafka.Kafka", "conf"]);
        let mut keeper = Command::new("sh");
        keeper.args(["-c", script, "kafka"]).arg(daemon.get_program()).args(daemon.get_args());
        let keeper = keeper.current_dir(folder).stdin(Stdio::piped()).spawn().unwrap();
        until("Kafka is there", || TcpStream::connect(("127.0.0.1", ports[0])).is_ok());
        keeper
    }

    pub(crate) fn url(&self) -> String {
        format!("kafka://127.0.0.1:{}", self.ports[0])
    }

    /// Runs one of Kafka's programs to its end, with this input.
    pub(crate) fn tool(&self, class: &str, arguments: &[&str], input: &str) -> String {
        let mut tool = java(self.folder.path(), &[&format!("org.apache.kafka.tools.{class}")]);
        tool.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut tool = tool.spawn().unwrap();
        tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = tool.wait_with_output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
        out
    }

    pub(crate) fn server(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    pub(crate) fn make(&self, topic: &str, partitions: u32, more: &[&str]) {
        let (server, partitions) = (self.server(), partitions.to_string());
        let make = ["--bootstrap-server", &server, "--create", "--topic", topic, "--partitions", &partitions];
        self.tool("TopicCommand", &[&make, more].concat(), "");
    }

    /// Sends lines as messages.
    pub(crate) fn produce(&self, topic: &str, options: &[&str], lines: &str) {
        let server = self.server();
        let to = ["--bootstrap-server", &server, "--topic", topic];
        self.tool("ConsoleProducer", &[&to, options].concat(), lines);
    }

    /// The messages of a topic as lines.
    pub(crate) fn messages(&self, topic: &str, options: &[&str]) -> Vec<String> {
        let (server, sum) = (self.server(), self.sum(topic).to_string());
        let from =
            ["--bootstrap-server", &server, "--topic", topic, "--from-beginning", "--max-messages", &sum];
        let lines = self.tool("consumer.ConsoleConsumer", &[&from, options].concat(), "");
        lines.lines().map(str::to_owned).collect()
    }

    /// Sends a request, with its header, and returns the answer.
    pub(crate) fn ask(&self, asked: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports[0]))?;
        socket.write_all(&u32::try_from(asked.len()).unwrap().to_be_bytes())?;
        socket.write_all(asked)?;
        let mut length = [0; 4];
        socket.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        socket.read_exact(&mut answer)?;
        Ok(answer)
    }

    /// Says that a group has come to offset 1 of a topic's first partition, with a note.
    pub(crate) fn commit(&self, group: &str, topic: &str, note: &str) {
        let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
        let head = [&[0, 8, 0, 5, 0, 0, 0, 0, 0, 0][..], &text(group), &[0xff; 4], &text(""), &[0, 0, 0, 1]]
            .concat();
        let parts =
            [&text(topic)[..], &[0, 0, 0, 1, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0, 1], &text(note)].concat();
        assert!(self.ask(&[head, parts].concat()).unwrap().ends_with(&[0, 0]));
    }

    /// How many offsets the partitions of a topic have given: three at most. None while it is not there.
    pub(crate) fn sum(&self, topic: &str) -> i64 {
        let mut asked = vec![0, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0];
        asked.push(u8::try_from(topic.len()).unwrap());
        asked.extend(topic.as_bytes());
        asked.extend([0, 0, 0, 3]);
        for partition in 0..3 {
            asked.extend([0, 0, 0, partition]);
            asked.extend([0xff; 8]);
        }
        let Ok(answer) = self.ask(&asked) else { return 0 };
        // Three partitions, each with index, error, time and offset.
        let partitions = answer[answer.len() - 3 * 22..].chunks(22);
        let offset = |part: &[u8]| i64::from_be_bytes(*part.last_chunk().unwrap());
        partitions.map(|part| offset(part).max(0)).sum()
    }
}

impl Service for Kafka {
    fn orders(&self) -> u64 {
        self.sum("orders").cast_unsigned()
    }

    fn kill(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
        self.keeper = Kafka::run(self.folder.path(), self.ports);
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        drop(self.keeper.wait());
    }
}

fn java(folder: &Path, arguments: &[&str]) -> Command {
    let mut java = Command::new("java");
    java.args(JAVA).arg(Kafka::jars().join("*")).args(arguments).current_dir(folder);
    java
}

/// Ports for all, for those who log in, for those who do it through TLS, for itself, and for those who come
/// through another port.
fn configuration(folder: &Path, [open, login, secure, own, behind, before]: [u16; 6]) -> String {
    let (at, host) = (folder.display(), "127.0.0.1");
    let modules = ["sasl_plaintext", "sasl_ssl"].map(|listener| {
        let module = |mechanism: &str, module: &str, users: &str| {
            let class = format!("org.apache.kafka.common.security.{module}LoginModule");
            format!("listener.name.{listener}.{mechanism}.sasl.jaas.config={class} required{users};\n")
        };
        [
            module("plain", "plain.Plain", " user_plain=\"s3:cret\" user_other=\"s3:cret\""),
            module("scram-sha-256", "scram.Scram", ""),
            module("scram-sha-512", "scram.Scram", ""),
        ]
        .concat()
    });
    format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@{host}:{own}\n\
         listeners=PLAINTEXT://{host}:{open},SASL_PLAINTEXT://{host}:{login},SASL_SSL://{host}:{secure},CONTROLLER://{host}:{own},BEHIND://{host}:{behind}\n\
         advertised.listeners=PLAINTEXT://{host}:{open},SASL_PLAINTEXT://{host}:{login},SASL_SSL://{host}:{secure},BEHIND://{host}:{before}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT,BEHIND:PLAINTEXT\nlog.dirs={at}/data\noffsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=1\nnum.network.threads=2\nnum.io.threads=2\n\
         broker.session.timeout.ms=1000\nbroker.heartbeat.interval.ms=200\ngroup.initial.rebalance.delay.ms=0\n\
         sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
         ssl.keystore.type=PEM\nssl.keystore.location={at}/both\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         super.users=User:ANONYMOUS;User:plain;User:scram\n{}",
        modules.concat()
    )
}
