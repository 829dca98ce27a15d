#!/usr/bin/env python3
"""Writes the lists that text.urlmodel is trained on into a folder: text_lists.py FOLDER

Run it on Debian 12 with the packages wamerican, wspanish, media-types and tzdata and an archive's package lists (apt
update). What it makes up depends on a fixed seed. A tenth of every list, by a hash of the line, is for measuring:
NAME.test beside NAME.train.
"""
import glob, os, random, subprocess, sys, zlib

folder = sys.argv[1]
pick = random.Random(1).choice
number = random.Random(2).randrange

GIVEN = """James Mary John Patricia Robert Jennifer Michael Linda William Elizabeth David Barbara Richard Susan Joseph
Jessica Thomas Sarah Charles Karen Christopher Nancy Daniel Lisa Matthew Betty Anthony Margaret Mark Sandra Donald
Ashley Steven Kimberly Paul Emily Andrew Donna Joshua Michelle Kenneth Carol Kevin Amanda Brian Dorothy George Melissa
Anna Peter Julia Jan Sofia Luis Carlos Maria Jose Ana Juan Laura Pedro Lucia Hans Klaus Petra Monika Stefan Sabine
Pierre Marie Jean Camille Louis Chloe Giulia Marco Luca Francesca Yuki Haruto Sakura Wei Li Min Ivan Olga Dmitri Elena
Ahmed Fatima Mohamed Aisha Omar Priya Raj Anita Lars Ingrid Erik Astrid Piotr Agnieszka Tomasz Eva Martin Alice""".split()
FAMILY = """Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson
Anderson Thomas Taylor Moore Jackson Martin Lee Perez Thompson White Harris Sanchez Clark Ramirez Lewis Robinson Walker
Young Allen King Wright Scott Torres Nguyen Hill Flores Green Adams Nelson Baker Hall Rivera Campbell Mitchell Carter
Roberts Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Dubois Moreau Laurent Bernard Petit
Rossi Russo Ferrari Esposito Bianchi Novak Kowalski Ivanov Petrov Tanaka Suzuki Sato Wang Zhang Chen Kim Park Singh
Kumar Patel Khan Ali Silva Santos Oliveira Jensen Hansen Nielsen Larsen Andersson Johansson Virtanen""".split()
DOMAINS = """gmail.com yahoo.com hotmail.com outlook.com icloud.com aol.com gmx.de web.de mail.ru yandex.ru qq.com
163.com proton.me orange.fr libero.it example.com example.org company.com mail.com live.com""".split()
STREETS = "Street Road Avenue Lane Drive Way Court Place Boulevard Square".split()
KEYS = "id name email status created_at updated_at user_id type price quantity title country city lang active".split()
STATUS = "active pending closed deleted open done failed new queued paid shipped cancelled draft published".split()
AGENTS = ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36",
          "Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/115.0",
          "Mozilla/5.0 (iPhone; CPU iPhone OS 17_%d like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
          "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36"]


def lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def archive():
    """Names and one-line titles of all packages of the archive: facts of its metadata."""
    text = subprocess.run(["apt-cache", "dumpavail"], stdout=subprocess.PIPE, check=True).stdout.decode()
    fields = lambda name: [line[len(name):].strip() for line in text.splitlines() if line.startswith(name)]
    return fields("Package: "), fields("Description: ") + fields("Description-en: ")


def paths():
    """Files of the archive's packages that are installed here, as many as of the other lists."""
    own = [name for name in sorted(glob.glob("/var/lib/dpkg/info/*.list")) if "google" not in name]
    known = sorted({line for name in own for line in lines(name) if line.count("/") > 1 and "gcloud" not in line})
    return random.Random(3).sample(known, min(len(known), 30_000))


def places():
    """Cities that time zones are named by."""
    zones = [line.split("\t")[2] for line in lines("/usr/share/zoneinfo/tzdata/zone.tab" if os.path.exists(
        "/usr/share/zoneinfo/tzdata/zone.tab") else "/usr/share/zoneinfo/zone.tab") if not line.startswith("#")]
    return [zone.split("/")[-1].replace("_", " ") for zone in zones] + zones


def day():
    return "20%02d-%02d-%02d" % (number(10, 27), number(1, 13), number(1, 29))


def when():
    return "%s%s%02d:%02d:%02d" % (day(), pick(" T"), number(24), number(60), number(60))


def email():
    given, family = pick(GIVEN), pick(FAMILY)
    user = pick(["{g}.{f}", "{g}{f}", "{g}_{f}", "{i}{f}", "{g}", "{g}{n}", "{g}.{f}{n}"])
    user = user.format(g=given, f=family, i=given[0], n=number(1, 100))
    domain = pick(DOMAINS + [family + pick([".com", ".net", ".org", ".de", ".co.uk", ".fr"])])
    return pick([str.lower, str.lower, str.lower, str])(user + "@" + domain)


def value(key, words):
    if key.endswith("id"):
        return str(number(1, 10 ** number(2, 8)))
    return {"name": lambda: '"%s %s"' % (pick(GIVEN), pick(FAMILY)), "email": lambda: '"%s"' % email(),
            "created_at": lambda: '"%sZ"' % when().replace(" ", "T"), "updated_at": lambda: '"%s"' % when(),
            "price": lambda: "%d.%02d" % (number(1000), number(100)), "quantity": lambda: str(number(100)),
            "active": lambda: pick(["true", "false", "null"]), "status": lambda: '"%s"' % pick(STATUS),
            "lang": lambda: '"%s"' % pick("en de fr es it pt ja zh ru nl pl".split()),
            }.get(key, lambda: '"%s"' % pick(words))()


def json(words):
    start = number(len(KEYS))
    keys = [key for at, key in enumerate(KEYS) if at == start or number(3) == 0]
    gap = pick(["", " "])
    return "{" + ("," + gap).join('"%s":%s%s' % (key, gap, value(key, words)) for key in keys) + "}"


def case(text):
    return pick([str, str, str.title, str.upper])(text)


def made(count, make):
    return [make() for _ in range(count)]


def main():
    english = [word for word in lines("/usr/share/dict/american-english") if not word.endswith("'s")]
    names, titles = archive()
    cities = places()
    lists = {
        "words_en": english,
        "words_es": lines("/usr/share/dict/spanish"),
        "package_names": names,
        "titles": titles,
        "paths": paths(),
        "places": cities + [line.split()[0] for line in lines("/etc/mime.types") if line and line[0] != "#"],
        "people": made(20_000, lambda: case(pick(["%s %s", "%s %s", "%s, %s"]) % (pick(GIVEN), pick(FAMILY)))),
        "emails": made(30_000, email),
        "addresses": made(15_000, lambda: "%d %s %s, %05d %s" % (
            number(1, 2000), pick([pick(FAMILY), pick(english).title()]), pick(STREETS), number(100_000), pick(cities))),
        "json": made(12_000, lambda: json(english)),
        "agents": made(1_000, lambda: pick(AGENTS) % number(1, 131)),
        "phrases": made(30_000, lambda: case(" ".join(pick(english) for _ in range(number(2, 5))))),
        "times": made(5_000, when) + made(5_000, lambda: "%s-%05d" % (pick(["SKU", "INV", "ORD", "A", "RE"]), number(99_999))),
    }
    for name, items in lists.items():
        parts = {"train": [], "test": []}
        for item in dict.fromkeys(item for item in items if item):
            parts["test" if zlib.crc32(item.encode()) % 10 == 0 else "train"].append(item)
        for part, items in parts.items():
            with open(os.path.join(folder, name + "." + part), "w", encoding="utf-8") as file:
                file.write("".join(item + "\n" for item in items))


main()
