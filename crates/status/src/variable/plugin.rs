//! The libraries of plugins that an option file loads.

use ::server::OptionLine;

use super::option::{Meaning, is_read, resolve, without_prefixes};
use super::{Snapshot, name};

/// A library that an option file loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// As written: `library`, or `name=library`, which loads only the plugin with this name.
    pub text: String,
}

impl Load {
    /// Whether a plugin of the library may have an option with this name. The options of a plugin begin with
    /// the plugin's name, and a library may have plugins of any name.
    #[must_use]
    pub fn may_have(&self, option: &str) -> bool {
        let Some((plugin, _)) = self.text.split_once('=') else { return true };
        let plugin = name::plain(plugin.trim());
        without_prefixes(&name::plain(option)).any(|name| name.starts_with(&plugin))
    }
}

/// What the lines load into this server: the last `plugin_load`, which replaces what was given before it, and
/// every `plugin_load_add` after that.
#[must_use]
pub fn loads(snapshot: &Snapshot, lines: &[OptionLine]) -> Vec<Load> {
    let mut all = Vec::new();
    for line in lines.iter().filter(|line| is_read(snapshot, line)) {
        let Meaning::Option { name, .. } = resolve(snapshot, &line.name) else { continue };
        match name {
            "plugin_load" => all.clear(),
            "plugin_load_add" => {}
            _ => continue,
        }
        let items = line.value.as_deref().unwrap_or_default().split([';', ':']).map(str::trim);
        all.extend(items.filter(|item| !item.is_empty()).map(|item| Load { text: item.to_owned() }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_plugin_load_replaces_what_was_before_it() {
        let snapshot = "remora variables 1\ntitle\tx\nversion\tmariadb-1.2.3\ngroups\tmysqld\nhas\toptions\n\n\
                        plugin_load\toption=required\nplugin_load_add\toption=required\n";
        let snapshot = Snapshot::read(snapshot).unwrap();
        let line = |(group, name, value): &(&str, &str, &str)| OptionLine {
            file: "/my.cnf".into(),
            line: 1,
            group: (*group).to_owned(),
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        let all = |lines: &[(&str, &str, &str)]| {
            let lines: Vec<_> = lines.iter().map(line).collect();
            loads(&snapshot, &lines).into_iter().map(|load| load.text).collect::<Vec<_>>()
        };
        let lines = [
            ("mysqld", "plugin-load-add", "a"),
            ("mysqld", "plugin_load", "b.so; x=c.so:d;"),
            ("client", "plugin-load-add", "e"),
            ("mysqld", "loose-plugin-load-add", "f"),
            ("mysqld", "no_such", "g"),
        ];
        assert_eq!(all(&lines), ["b.so", "x=c.so", "d", "f"]);
        assert_eq!(all(&lines[..1]), ["a"]);
    }

    #[test]
    fn an_option_begins_with_the_name_of_its_plugin() {
        let may = |text: &str, option| Load { text: text.to_owned() }.may_have(option);
        assert!(may("server_audit", "anything"));
        assert!(may("Server_Audit = x.so", "loose-skip-server-audit-logging"));
        assert!(may("skip_show=x.so", "skip-show-all"));
        assert!(!may("server_audit=x.so", "max_server_audit") && !may("server_audit=x.so", "server_audi"));
    }
}
