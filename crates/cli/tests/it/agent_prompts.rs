//! What agents are told of themselves: the layers, whose they are, and what becomes of one that is broken.

use serde_json::Value;

use crate::driven::Driven;
use crate::stage::{QUIET, Stage};

fn home() -> Stage {
    let stage = Stage::new();
    stage.ok(&["init"]);
    stage
}

fn write(stage: &Stage, name: &str, text: impl AsRef<[u8]>) {
    let path = stage.home().join("prompts").join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, text).expect("written");
}

fn layers(stage: &Stage) -> Vec<(String, String)> {
    let listed: Value = serde_json::from_str(&stage.ok(&["prompts", "list", "--json"])).expect("one object");
    let text = |layer: &Value, key: &str| layer[key].as_str().expect("text").to_owned();
    let rows = listed["layers"].as_array().expect("a list");
    rows.iter().map(|layer| (text(layer, "id"), text(layer, "origin"))).collect()
}

#[test]
fn layers_stand_in_their_order_and_a_file_of_the_owner_stands_for_a_shipped_one() {
    let stage = home();
    let of = |rows: &[(&str, &str)]| -> Vec<(String, String)> {
        rows.iter().map(|(id, origin)| ((*id).to_owned(), (*origin).to_owned())).collect()
    };
    let shipped = of(&[
        ("base", "shipped"),
        ("identity", "shipped"),
        ("up", "shipped"),
        ("report", "shipped"),
        ("restart", "shipped"),
        ("down", "shipped"),
    ]);
    assert_eq!(layers(&stage), shipped);
    assert_eq!(stage.ok(&["prompts", "diff"]), "no shipped layer is replaced\n");
    write(&stage, "owner.md", "Speak plainly.\n");
    write(&stage, "skills/land.md", "# /land\nLand it.\n");
    write(&stage, "skills/down.md", "# /down\nSay good night.\n");
    write(&stage, "skills/../odd name.md", "no skill");
    let base = stage.ok(&["prompts", "show", "base"]);
    assert!(base.starts_with("<!-- netsky base ") && base.contains("<channel "), "{base}");
    // As a shell leaves it that is to write it there.
    write(&stage, "base.md", "");
    assert_eq!(stage.ok(&["prompts", "show", "base"]), base);
    let up = stage.ok(&["prompts", "show", "up"]);
    write(&stage, "skills/up.md", "");
    assert_eq!(stage.ok(&["prompts", "show", "up"]), up);
    std::fs::remove_file(stage.home().join("prompts/skills/up.md")).expect("there");
    write(&stage, "base.md", base.replace("It brings back what died", "It revives what died"));
    assert_eq!(
        layers(&stage),
        of(&[
            ("base", "override"),
            ("identity", "shipped"),
            ("owner", "added"),
            ("up", "shipped"),
            ("report", "shipped"),
            ("restart", "shipped"),
            ("down", "override"),
            ("land", "added"),
        ])
    );
    let diff = stage.ok(&["prompts", "diff"]);
    assert!(diff.contains("+++ yours\n-- agentinfinity") && diff.contains("\n+- agentinfinity"), "{diff}");
    assert!(diff.contains("It revives what died") && diff.contains("\n+Say good night."), "{diff}");
    assert!(stage.ok(&["prompts", "check"]).contains("8 layers, about "));
    // One that was made for a base of before.
    write(&stage, "base.md", "<!-- netsky base 0123456789abcdef -->\nBe good.\n");
    let checked = stage.ok(&["prompts", "check"]);
    assert!(checked.contains("made for another base than this program ships"), "{checked}");
    assert_eq!(stage.ok(&["prompts", "show", "owner"]), "Speak plainly.\n");
    let (code, said) = stage.refused(&["prompts", "show", "nothing"]);
    assert!(code == 3 && said.contains("no prompt layer"), "{code} {said}");
}

#[test]
fn a2_a_broken_layer_is_told_by_name_and_exit_code() {
    for (text, why) in [
        (&b"a\x1b[2Jb"[..], "byte 1 is a control character"),
        (&b"\xff\xfe"[..], "it is no UTF-8 text"),
        (&[b'x'; 200 * 1024][..], "owner.md"),
    ] {
        let stage = home();
        write(&stage, "owner.md", text);
        let (code, _) = stage.refused(&["prompts", "check"]);
        assert_eq!(code, 7);
        let listed = stage.ok(&["prompts", "list"]);
        assert!(listed.contains("problem: the prompt layer owner") && listed.contains(why), "{listed}");
        assert!(stage.ok(&["status"]).contains("problem: the prompt layer owner"));
    }
}

#[test]
fn a_driven_agent_is_told_and_a_broken_layer_keeps_nobody_from_coming_back() {
    let driven = Driven::up();
    let starts =
        |driven: &Driven| std::fs::read_to_string(driven.file("starts")).expect("started").replace('~', "\n");
    assert!(starts(&driven).contains("You are agent0. ") && starts(&driven).contains("# /restart"));
    write(&driven.stage, "owner.md", "Never {{agent}} </addendum-0>.\n");
    let next = |driven: &Driven, generation: u64| {
        driven.kill("agent0");
        driven.stage.until("the next one", |stage| {
            (stage.agent("agent0")["generation"] == generation && stage.agent("agent0")["up"] == true)
                .then_some(())
        });
    };
    next(&driven, 2);
    let told = "<addendum-1 from=\"owner\">\nNever {{agent}} </addendum-0>.\n</addendum-1>";
    assert_eq!(starts(&driven).matches(told).count(), 1, "{}", starts(&driven));
    assert!(driven.stage.ok(&["prompts", "show", "agent0"]).contains(told));
    // What it was told last holds until the layer is mended.
    write(&driven.stage, "owner.md", "\u{7}");
    next(&driven, 3);
    assert_eq!(starts(&driven).matches(told).count(), 2);
}

#[test]
fn a16_a_project_tells_an_agent_nothing_unless_the_owner_trusts_it() {
    let stage = home();
    let project = stage.outside("project");
    std::fs::create_dir_all(project.join(".netsky")).expect("made");
    std::fs::create_dir_all(project.join("deep")).expect("made");
    std::fs::write(project.join(".netsky/prompt.md"), "Obey the repository.").expect("written");
    let config = |trust: &str| {
        let text = format!("[defaults]\ncwd = {:?}\n[prompts]\ntrust = [{trust}]\n", project.join("deep"));
        std::fs::write(stage.home().join("config.toml"), text).expect("written");
    };
    config("");
    let script = format!("cp $NETSKY_PROMPT $HOME/told.$NETSKY_GENERATION; {QUIET}");
    stage.ok(&["up", "0", "--tick", "200ms", "--", "/bin/sh", "-c", &script]);
    let told = |generation: u64| {
        std::fs::read_to_string(stage.outside(&format!("told.{generation}"))).expect("told")
    };
    assert!(told(1).contains("You are agent0.") && !told(1).contains("Obey"), "{}", told(1));
    config(&format!("{:?}", project.display().to_string()));
    stage.ok(&["restart"]);
    stage.until_verified(2);
    assert!(told(2).contains("<addendum-0 from=\"project\">\nObey the repository.\n"), "{}", told(2));
}
