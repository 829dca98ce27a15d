//! A program in memory: where its variables are, and their values.

use std::io;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use disk::{Disk, RealDisk, Source, Volume};
use object::read::elf::{ElfFile64, ElfSection64, ElfSegment64};
use object::{
    LittleEndian, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SectionKind, SymbolKind,
};
use progress::count;

use crate::process::{Mapping, Process};
use crate::variables::Width;

/// The section in which MariaDB keeps what must not change after its start, and which it then protects.
const PROTECTED: &str = "ro_after_init";
/// Sections with variables.
const VARIABLES: [&str; 3] = [".data", ".bss", PROTECTED];
/// The note that identifies a build.
const BUILD_ID: &str = ".note.gnu.build-id";
const VERSION: &str = "server_version";
/// The longest version text.
const VERSION_MAX: usize = 64;

type Elf<'a> = ElfFile64<'a, LittleEndian, &'a ReadCache<Box<dyn Source>>>;

/// The memory of a server, and the facts from its program file.
pub struct Image {
    pid: u32,
    memory: Box<dyn Volume>,
    mappings: Vec<Mapping>,
    /// The program's name in the table of mappings.
    program: String,
    /// The difference between addresses in memory and in the program file.
    bias: u64,
    segments: Vec<Segment>,
    symbols: Vec<Symbol>,
    /// The build id, in hexadecimal digits.
    pub build: String,
}

/// A part of the program that is loaded.
struct Segment {
    addresses: Range<u64>,
    /// Its offset in the file, and how much of it is in the file; the rest starts as zeros.
    file: (u64, u64),
}

struct Symbol {
    name: &'static str,
    address: u64,
    size: u64,
    section: String,
}

/// A variable in memory.
pub struct Cell<'a> {
    image: &'a Image,
    /// Its address in the memory of the process.
    pub address: u64,
    width: Width,
}

impl Image {
    /// Opens a server's memory and finds the variables with these names in its program.
    pub fn open(process: &Process, wanted: &[&'static str]) -> Result<Image> {
        // The memory comes first: if the process ends and another one gets its number, this handle still
        // belongs to the old one.
        let memory = RealDisk
            .volume(Path::new(&format!("/proc/{}/mem", process.pid)))
            .map_err(|error| forbidden(process.pid, error))?;
        let mappings = process.mappings()?;
        let cache = ReadCache::new(RealDisk.open(&process.file).with_context(|| process.program.clone())?);
        let elf = Elf::parse(&cache).with_context(|| {
            format!("{} is not a program of a kind that remora can read", process.program)
        })?;
        let segment = |segment: ElfSegment64<'_, '_, LittleEndian, _>| Segment {
            addresses: segment.address()..segment.address() + segment.size(),
            file: segment.file_range(),
        };
        let segments: Vec<Segment> = elf.segments().map(segment).collect();
        let bias = bias(&segments, &mappings, &process.program)?;
        let wanted = [wanted, &[VERSION]].concat();
        let symbols = symbols(&elf, &wanted)?;
        let build = elf.build_id()?.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
        let build = build
            .context("the program has no build id, so it can't be checked that it is the one that runs")?;
        let (pid, program) = (process.pid, process.program.clone());
        let image = Image { pid, memory, mappings, program, bias, segments, symbols, build };
        image.check_build(&elf)?;
        Ok(image)
    }

    /// Checks that the memory was loaded from this file, by the build id.
    fn check_build(&self, elf: &Elf<'_>) -> Result<()> {
        let note = elf.section_by_name(BUILD_ID).context("the program has no build id in the usual place")?;
        let filed = note.data()?;
        let mut loaded = vec![0; filed.len()];
        self.read(self.bias.wrapping_add(note.address()), &mut loaded)?;
        ensure!(
            loaded == filed,
            "{} on the disk is not the program that runs: it was replaced",
            self.program
        );
        Ok(())
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.memory.read_at(at + done as u64, rest) {
                Ok(0) => bail!("process {} has ended", self.pid),
                Ok(count) => done += count,
                Err(error) => return Err(forbidden(self.pid, error)),
            }
        }
        Ok(())
    }

    /// The server's version.
    pub fn version(&self) -> Result<String> {
        let symbol = self.symbol(VERSION)?;
        let mut bytes = vec![0; usize::try_from(symbol.size)?.min(VERSION_MAX)];
        self.read(self.place(symbol)?, &mut bytes)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned())
    }

    /// The variable with that name and width, if everything fits.
    pub fn cell(&self, name: &str, width: Width) -> Result<Cell<'_>> {
        let symbol = self.symbol(name)?;
        let size = width.bytes() as u64;
        ensure!(symbol.size == size, "{name} has {} in this program, not {size}", count(symbol.size, "byte"));
        let address = self.place(symbol)?;
        ensure!(address.is_multiple_of(size), "{name} lies across two words");
        Ok(Cell { image: self, address, width })
    }

    fn symbol(&self, name: &str) -> Result<&Symbol> {
        let found: Vec<&Symbol> = self.symbols.iter().filter(|symbol| symbol.name == name).collect();
        match *found {
            [] => bail!("{} has no symbol {name}", self.program),
            [first, ref others @ ..] => {
                let same = |other: &&Symbol| (other.address, other.size) == (first.address, first.size);
                ensure!(others.iter().all(same), "{} has several symbols {name}", self.program);
                Ok(first)
            }
        }
    }

    /// The address of a variable in memory, if the memory there is what it should be.
    fn place(&self, symbol: &Symbol) -> Result<u64> {
        let Symbol { name, address, size, section } = symbol;
        ensure!(VARIABLES.contains(&&**section), "{name} is in section {section}, which has no variables");
        let segment = self.segments.iter().find(|segment| segment.addresses.contains(address));
        let segment =
            segment.with_context(|| format!("{name} is not in a part of the program that is loaded"))?;
        let place = self.bias.wrapping_add(*address);
        let within = |mapping: &&Mapping| mapping.place.contains(&place) && place + size <= mapping.place.end;
        let mapping = self.mappings.iter().find(within);
        let mapping = mapping.with_context(|| format!("there is no memory where {name} should be"))?;
        ensure!(mapping.is_private, "{name} is in memory that other processes share");
        let begins = self.bias.wrapping_add(segment.addresses.start).wrapping_sub(segment.file.0);
        let of_file =
            mapping.path == self.program && mapping.place.start.wrapping_sub(mapping.offset) == begins;
        // Zeros follow the bytes from the file, in memory without a file.
        let of_zeros = mapping.path.is_empty() && address - segment.addresses.start >= segment.file.1;
        ensure!(of_file || of_zeros, "the memory where {name} should be is not the program's");
        ensure!(
            mapping.is_writable || section == PROTECTED,
            "{name} is in memory that the server itself can't change"
        );
        Ok(place)
    }
}

impl Cell<'_> {
    /// Its value.
    pub fn read(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.image.read(self.address, bytes.get_mut(..self.width.bytes()).unwrap_or_default())?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Stores a value in one write of its width, so that no thread of the server sees half of it.
    pub fn write(&self, value: u64) -> Result<()> {
        let bytes = value.to_le_bytes();
        let bytes = bytes.get(..self.width.bytes()).unwrap_or_default();
        self.image.memory.write_at(self.address, bytes).map_err(|error| forbidden(self.image.pid, error))
    }
}

/// The difference between addresses in memory and in the file: the first part of the program is at the first
/// mapping.
fn bias(segments: &[Segment], mappings: &[Mapping], program: &str) -> Result<u64> {
    let loaded = mappings.iter().find(|mapping| mapping.path == program && mapping.offset == 0);
    let first = segments.iter().find(|segment| segment.file.0 == 0);
    match (loaded, first) {
        (Some(loaded), Some(first)) => Ok(loaded.place.start.wrapping_sub(first.addresses.start)),
        _ => bail!("{program} was not found in the memory of its process"),
    }
}

/// The symbols with these names, from the dynamic table and, if there is one, from the debugger's table.
fn symbols(elf: &Elf<'_>, wanted: &[&'static str]) -> Result<Vec<Symbol>> {
    let mut found = Vec::new();
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        if symbol.kind() != SymbolKind::Data || !symbol.is_definition() {
            continue;
        }
        let name = symbol.name_bytes()?;
        let Some(name) = wanted.iter().find(|wanted| wanted.as_bytes() == name) else { continue };
        // By its place: whoever edits a program to find other libraries may leave old numbers of sections.
        let holds = |section: &ElfSection64<'_, '_, LittleEndian, _>| {
            let places = section.address()..section.address() + section.size();
            places.contains(&symbol.address()) && section.kind() != SectionKind::UninitializedTls
        };
        let section = elf.sections().find(holds).context("a variable without a section")?;
        let section = section.name()?.to_owned();
        found.push(Symbol { name, address: symbol.address(), size: symbol.size(), section });
    }
    Ok(found)
}

/// What to do about memory that can't be accessed.
fn forbidden(pid: u32, error: io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            match scope.trim() {
                "" | "0" => "run this as root, or as the user that the server runs as; a container also needs CAP_SYS_PTRACE".to_owned(),
                scope => format!("kernel.yama.ptrace_scope is {scope}: run this as root (with 3 nobody may, until the next boot)"),
            }
        }
        io::ErrorKind::NotFound => "it has ended".to_owned(),
        // This leaves EIO: the kernel does not write over protected memory.
        _ => "perhaps this kernel lets nobody write to protected memory (proc_mem.force_override, lockdown)"
            .to_owned(),
    };
    anyhow!("the memory of process {pid}: {error}; {hint}")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Our own program in memory, as if it came from this file.
    fn own(file: &str) -> Result<Image> {
        let program = std::env::current_exe().unwrap().display().to_string();
        Image::open(&Process { pid: std::process::id(), program, file: PathBuf::from(file) }, &["main"])
    }

    #[test]
    fn a_program_of_another_build_is_refused() {
        let image = own("/proc/self/exe").unwrap();
        assert!(image.build.len() >= 16 && image.build.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(image.version().unwrap_err().to_string().contains("has no symbol server_version"));
        // A function is not a variable.
        assert!(image.cell("main", Width::Flag).is_err());
        let refusal = own("/bin/sh").err().unwrap().to_string();
        assert!(refusal.contains("it was replaced") || refusal.contains("memory of process"), "{refusal}");
        assert!(own("/etc/passwd").is_err());
    }
}
