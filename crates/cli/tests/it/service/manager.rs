//! The units as a real user manager of systemd runs them, in a mount namespace where version 2 of control groups is all there is.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netsky_disk::process::{Signal, identify, is_alive};
use netsky_kernel::client::Client;
use netsky_model::process::ProcessId;

use super::units::{HOSTILE, printed};
use crate::stage::{QUIET, Stage};

/// Makes what a manager looks for, and becomes it.
const BECOME: &str =
    "set -e; umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; mount -t tmpfs none /run
    mkdir -p /run/systemd/system \"/sys/fs/cgroup/$1\"; echo $$ >\"/sys/fs/cgroup/$1/cgroup.procs\"
    exec /usr/lib/systemd/systemd --user --log-target=console --log-level=info";

/// Nothing here waits so long when all is well.
const LIMIT: Duration = Duration::from_secs(90);

struct Manager {
    stage: Stage,
    child: Child,
    group: String,
    /// The program, in a folder whose name every syntax has a meaning for.
    netsky: PathBuf,
}

impl Manager {
    /// None where this machine, or this user, cannot have one.
    fn start() -> Option<Manager> {
        let stage = Stage::named(HOSTILE);
        for folder in ["run", HOSTILE] {
            std::fs::create_dir(stage.outside(folder)).expect("made");
        }
        std::fs::remove_dir(stage.home()).expect("empty");
        // What systemd takes in no program's path is refused by `install`.
        let bin = stage.outside(&format!("bin {}", HOSTILE.replace(['"', '\'', '\\'], "")));
        std::fs::create_dir(&bin).expect("made");
        let netsky = bin.join("netsky");
        std::fs::copy(env!("CARGO_BIN_EXE_netsky"), &netsky).expect("copied");
        let group = format!("netsky-test-{}", std::process::id());
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "/bin/sh", "-c", BECOME, "sh", &group]);
        command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", stage.outside(""));
        command.env("XDG_RUNTIME_DIR", stage.outside("run")).stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::create(stage.outside("manager.log")).expect("made");
        let child = command.stderr(log).spawn().ok()?;
        let mut manager = Manager { stage, child, group, netsky };
        let began = Instant::now();
        while manager.systemctl(&["show", "--property=Version"]).is_none() {
            // It could not mount what it needs, or there is no systemd.
            if manager.child.try_wait().expect("ours").is_some() {
                return None;
            }
            assert!(began.elapsed() < LIMIT, "it does not answer: {}", manager.log());
            netsky_disk::clock::pause(Duration::from_millis(100));
        }
        Some(manager)
    }

    /// What it answers; none where it fails.
    fn systemctl(&self, args: &[&str]) -> Option<String> {
        let mut command = Command::new("systemctl");
        command.arg("--user").args(args).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        let ran = command.env("XDG_RUNTIME_DIR", self.stage.outside("run")).output().ok()?;
        ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).trim().to_owned())
    }

    /// The installed program, as its owner runs it.
    fn netsky(&self, args: &[&str]) -> String {
        let mut command = Command::new(&self.netsky);
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.stage.outside(""));
        command.env("NETSKY_HOME", self.stage.home()).stdin(Stdio::null());
        let ran = command.env("XDG_RUNTIME_DIR", self.stage.outside("run")).output().expect("starts");
        assert!(ran.status.success(), "{args:?}: {}{}", String::from_utf8_lossy(&ran.stderr), self.log());
        String::from_utf8(ran.stdout).expect("text")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.stage.outside("manager.log")).unwrap_or_default()
    }

    fn until<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(began.elapsed() < LIMIT, "{what} did not happen: {}", self.log());
            netsky_disk::clock::pause(Duration::from_millis(50));
        }
    }

    /// The process of the service's ticker.
    fn ticker(&self, unit: &str) -> Option<ProcessId> {
        let pid = self.systemctl(&["show", "--property=MainPID", "--value", unit])?;
        identify(pid.parse().ok().filter(|pid| *pid > 1)?)
    }

    /// How often the failsafe has ended by now, told by the time of its last end.
    fn last(&self) -> String {
        std::fs::read_to_string(self.stage.home().join("state/tick/failsafe.json")).unwrap_or_default()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Nobody starts any more whom the stage ends after this.
        let _ = self.systemctl(&["stop", "netsky*.timer", "netsky*.service"]);
        let _ = self.stage.run(&["down"]);
        let _ = self.child.kill();
        let _ = self.child.wait();
        for place in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let group = format!("{place}/{}", self.group);
            let _ = Command::new("find")
                .args([&group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Settings of the owner over those of a unit: nobody here waits for two minutes.
fn drop_in(manager: &Manager, unit: &str, text: &str) {
    let folder = manager.stage.outside(".config/systemd/user").join(format!("{unit}.d"));
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("test.conf"), text).expect("written");
}

#[test]
fn must_show_9_under_a_real_user_manager_everything_killed_at_once_is_back_and_a_down_stays_down() {
    let Some(manager) = Manager::start() else {
        return crate::skipped::skipped("root, and a systemd that runs as a user's manager");
    };
    let stage = &manager.stage;
    let [_, failsafe, timer, ticker] = printed(stage, &[]).try_into().expect("four files");
    drop_in(
        &manager,
        &timer.0,
        "[Timer]\nOnUnitActiveSec=\nOnBootSec=1\nOnUnitActiveSec=3\nAccuracySec=100ms\n",
    );
    drop_in(&manager, &ticker.0, "[Service]\nWatchdogSec=5\nRestartSec=100ms\n");
    stage.ok(&["up", "1", "--tick", "1s", "--", "/bin/sh", "-c", QUIET]);
    let said = manager.netsky(&["service", "install"]);
    assert_eq!(said.matches("wrote ").count(), 4, "{said}");
    let status = manager.netsky(&["service", "status"]);
    assert!(status.contains("starts with the machine") && !status.contains("outdated"), "{status}");
    assert_eq!(manager.systemctl(&["is-active", &ticker.0, &timer.0]).as_deref(), Some("active\nactive"));
    manager.until("a first failsafe", || (!manager.last().is_empty()).then_some(()));

    // All at once; the service's ticker too, which systemd starts again.
    let agents = ["agent0", "agent1"].map(|id| stage.program(id));
    let service = manager.ticker(&ticker.0).expect("it runs");
    let keepers = ["netsky-ticker", "agentinfinity"].map(|id| stage.program(id));
    let anchor = stage.anchor();
    kill_at_once(&manager, &keepers, &[anchor, service.clone()]);
    manager.until("the service's ticker", || manager.ticker(&ticker.0).filter(|id| *id != service));
    assert!(agents.iter().all(is_alive), "the agents lived on");

    // By the failsafe alone, in whose unit they are then; it ends, and they live on. So they do when the ticker stops.
    manager.systemctl(&["stop", &ticker.0]).expect("stopped");
    let keepers = ["netsky-ticker", "agentinfinity"].map(|id| stage.program(id));
    let began = Instant::now();
    kill_at_once(&manager, &keepers, &[stage.anchor()]);
    assert!(began.elapsed() < Duration::from_secs(120));
    let anchor = stage.anchor();
    let by = std::fs::read_to_string(format!("/proc/{}/cgroup", anchor.pid)).expect("it lives");
    assert!(by.contains(&failsafe.0), "the failsafe started it: {by}");
    manager.systemctl(&["stop", &failsafe.0]).expect("stopped");
    manager.systemctl(&["restart", &ticker.0]).expect("restarted");
    assert!(is_alive(&anchor) && agents.iter().all(is_alive));

    a_hanging_ticker_is_started_again(&manager, &ticker.0);
    stop_means_stop(&manager);
    assert!(!agents.iter().any(is_alive));
    what_fails_is_told(&manager);
    let said = manager.netsky(&["service", "uninstall"]);
    assert_eq!(said.matches("removed ").count(), 4, "{said}");
    assert_eq!(manager.ticker(&ticker.0), None);
}

/// None of them sees the end of another; and waits until they are back.
fn kill_at_once(manager: &Manager, keepers: &[ProcessId], others: &[ProcessId]) {
    let stage = &manager.stage;
    keepers.iter().for_each(|keeper| stage.signal(keeper, Signal::STOP));
    others.iter().chain(keepers).for_each(|one| stage.signal(one, Signal::KILL));
    for (id, killed) in ["netsky-ticker", "agentinfinity"].into_iter().zip(keepers) {
        manager.until(id, || stage.agent(id)["pid"].as_u64().filter(|pid| *pid != u64::from(killed.pid)));
    }
    manager.until("an anchor", || Client::connect(&stage.home().join(".ostk")).ok());
}

fn a_hanging_ticker_is_started_again(manager: &Manager, unit: &str) {
    let hangs = manager.until("the service's ticker", || manager.ticker(unit));
    manager.stage.signal(&hangs, Signal::STOP);
    manager.until("another one", || manager.ticker(unit).filter(|id| *id != hangs));
    assert!(!is_alive(&hangs));
}

fn stop_means_stop(manager: &Manager) {
    manager.stage.ok(&["down"]);
    for _ in 0..2 {
        let before = manager.last();
        manager.until("a failsafe", || (manager.last() != before).then_some(()));
    }
    assert!(manager.last().contains("nobody is wanted"), "{}", manager.last());
    assert!(Client::connect(&manager.stage.home().join(".ostk")).is_err());
}

/// By who is not of this program.
fn what_fails_is_told(manager: &Manager) {
    let stage = &manager.stage;
    let kept = std::fs::read_to_string(stage.home().join("home.json")).expect("there");
    std::fs::write(stage.home().join("home.json"), "{\"v\":99}").expect("written");
    let told = stage.home().join("logs/failsafe-failed.txt");
    let read = || std::fs::read_to_string(&told).unwrap_or_default();
    manager.until("a page", || read().contains("the failsafe of netsky failed for").then_some(()));
    std::fs::write(stage.home().join("home.json"), kept).expect("written");
}
