//! The format of `torch.save` since PyTorch 1.6: a zip archive of a pickle and the storages that its tensors view.
//!
//! The pickle is read as data, and no code of it runs.

mod pickle;

use std::collections::HashMap;
use std::io::{BufReader, Read, Seek};

use dlbridge::{DataType, MAX_NDIM};
use zip::CompressionMethod;
use zip::read::ZipFile;

use crate::formats::{invalid, unsupported};
use crate::index::Index;
use crate::index::{packed, span};
use crate::npz::{self, Zip};
use crate::safetensors::MAX_HEADER;
use crate::{Entry, Fault, Value};
use pickle::{Id, Object, Reader};

/// The name of the format, for messages.
const NAME: &str = "PyTorch";

/// The pickle in the folder of an archive.
const PICKLE: &str = "data.pkl";

/// How deep dicts, lists and calls may be inside each other.
const MAX_DEPTH: usize = 64;

/// The most bytes of names and values, as a multiple of the pickle's, which can put one object at many places; those that
/// a small pickle may have beyond; and those that each counts beside its text.
const MAX_ROOM: u64 = 32;
const SMALL: u64 = 1 << 20;
const EACH: u64 = 16;

/// The folder of an archive that has a pickle, with its slash.
pub(crate) fn folder(archive: &Zip<impl Read + Seek>) -> Option<String> {
    let mut names = archive.file_names_raw().filter_map(|name| str::from_utf8(name).ok());
    let folder = names.find_map(|name| name.split_once('/').filter(|(_, name)| *name == PICKLE));
    folder.map(|(folder, _)| format!("{folder}/"))
}

/// The index of an archive of `len` bytes with that folder.
pub(crate) fn index(
    archive: Zip<impl Read + Seek>,
    len: u64,
    folder: &str,
) -> Result<Index, Fault> {
    let mut members = Members { archive, len, folder };
    if members.get("constants.pkl")?.is_some() {
        let reason = "it is a TorchScript archive; save the state_dict() of the module instead";
        return Err(unsupported(NAME, reason));
    }
    // Releases before 2.1 did not write it, on machines that were little-endian.
    let is_little = match &*members.read("byteorder")? {
        b"little" | b"" => true,
        b"big" => false,
        _ => return Err(invalid(NAME, "its byte order is neither little nor big")),
    };
    let pickle = members.read(PICKLE)?;
    let mut reader = Reader::new(&pickle);
    let root = reader.read()?;
    let mut values = Values {
        objects: &reader.objects,
        members,
        storages: HashMap::new(),
        is_swapped: is_little != cfg!(target_endian = "little"),
        room: MAX_ROOM * pickle.len() as u64 + SMALL,
        index: Index::default(),
    };
    let root = values.object(root);
    values.enter(0, 0)?;
    values.put("", root, 0)?;
    let mut index = values.index;
    // Names that two values have.
    index.tensors.retain(|name, _| !index.refused.contains_key(name));
    index.metadata.retain(|name, _| !index.refused.contains_key(name));
    let mut views = HashMap::new();
    for entry in index.tensors.values() {
        *views.entry(entry.storage.clone()).or_insert(0) += 1;
    }
    for entry in index.tensors.values_mut() {
        entry.storage.take_if(|storage| views[&Some(storage.clone())] == 1);
    }
    // A dict may have a tensor without a name too.
    index.is_single = matches!(root, Object::Tensor(..));
    Ok(index)
}

/// The tensors and values of a pickle.
struct Values<'a, R> {
    objects: &'a [Object],
    members: Members<'a, R>,
    /// The first byte and the length of each storage that was found, by its key.
    storages: HashMap<&'a str, (u64, u64)>,
    is_swapped: bool,
    /// The bytes that names and values may still have.
    room: u64,
    index: Index,
}

impl<'a, R: Read + Seek> Values<'a, R> {
    fn object(&self, id: Id) -> &'a Object {
        &self.objects[id as usize]
    }

    /// Adds the tensors and values of an object under a name.
    fn add(&mut self, name: &str, id: Id, depth: usize) -> Result<(), Fault> {
        self.enter(name.len(), depth)?;
        let Index { tensors, metadata, refused, .. } = &self.index;
        let is_again =
            tensors.contains_key(name) || metadata.contains_key(name) || refused.contains_key(name);
        let reason = match self.put(name, self.object(id), depth) {
            Ok(has_name) if !(has_name && is_again) => return Ok(()),
            Err(Fault::Unsupported { reason, .. }) if !is_again => reason,
            Ok(_) | Err(Fault::Unsupported { .. }) => {
                "two values have this name; rename one, or use torch.load".into()
            }
            Err(fault) => return Err(fault),
        };
        self.index.refused.insert(name.into(), reason);
        Ok(())
    }

    /// Puts an object into the index, and returns false if only the values in it have names.
    fn put(&mut self, name: &str, object: &'a Object, depth: usize) -> Result<bool, Fault> {
        let within = |key: &str| match name {
            "" => key.to_owned(),
            _ => format!("{name}.{key}"),
        };
        match object {
            Object::Dict(entries) => {
                for &[key, value] in entries {
                    let key = match self.object(key) {
                        Object::Value(Value::Text(key)) => within(key),
                        Object::Value(Value::Int(key)) => within(&key.to_string()),
                        _ => {
                            return Err(unsupported(
                                NAME,
                                "a key in it is neither text nor an integer",
                            ));
                        }
                    };
                    self.add(&key, value, depth + 1)?;
                }
                return Ok(false);
            }
            Object::Tensor(arguments, has_dtype) => {
                let entry = self.tensor(name, *arguments, *has_dtype)?;
                self.index.tensors.insert(name.into(), entry);
                return Ok(true);
            }
            _ => {}
        }
        if let Some(value) = self.value(object, depth)? {
            self.index.metadata.insert(name.into(), value);
            return Ok(true);
        }
        if let Object::List(items) | Object::Tuple(items) = object {
            for (nth, &item) in items.iter().enumerate() {
                self.add(&within(&nth.to_string()), item, depth + 1)?;
            }
            return Ok(false);
        }
        let maker = if let Object::Made(maker) = object { self.object(*maker) } else { object };
        let Object::Global(maker) = maker else {
            return Err(unsupported(NAME, "it is not part of a state dict"));
        };
        let advice = match maker.as_str() {
            "torch._utils._rebuild_qtensor" => "makes quantised tensors; save x.dequantize()",
            "torch._utils._rebuild_sparse_tensor" => "makes sparse tensors; save x.to_dense()",
            _ => "no state dict needs; save that, or use torch.load if you trust the file",
        };
        Err(unsupported(NAME, format!("it needs {maker}, which {advice}")))
    }

    /// Counts a name or value with that many bytes of text.
    fn enter(&mut self, bytes: usize, depth: usize) -> Result<(), Fault> {
        let room = self.room.checked_sub(EACH + bytes as u64).filter(|_| depth < MAX_DEPTH);
        self.room = room.ok_or_else(|| {
            let reason = format!(
                "its values are more than {MAX_DEPTH} deep, or have {MAX_ROOM} times the bytes of the pickle"
            );
            invalid(NAME, reason)
        })?;
        Ok(())
    }

    /// A value of the metadata; `None` for all others, and for lists with them.
    fn value(&mut self, object: &Object, depth: usize) -> Result<Option<Value>, Fault> {
        let bytes = if let Object::Value(Value::Text(text)) = object { text.len() } else { 0 };
        self.enter(bytes, depth)?;
        match object {
            Object::Value(value) => Ok(Some(value.clone())),
            // A dtype, for example.
            Object::Global(name) if name.starts_with("torch.") => {
                Ok(Some(Value::Text(name.clone())))
            }
            Object::List(items) | Object::Tuple(items) => {
                let values = items.iter().map(|&item| self.value(self.object(item), depth + 1));
                let values: Result<Option<Vec<Value>>, Fault> = values.collect();
                Ok(values?.map(Value::Array))
            }
            _ => Ok(None),
        }
    }

    /// The description of a tensor, given the arguments of the function that makes it.
    fn tensor(&mut self, name: &str, arguments: Id, has_dtype: bool) -> Result<Entry, Fault> {
        let damaged = || invalid(NAME, format!("the description of tensor {name:?} is damaged"));
        let view = self.view(arguments, has_dtype).ok_or_else(damaged)?;
        let (class, key, offset, shape, strides, has_bits) = view;
        if has_bits {
            let reason =
                "its conjugate or negative bit is set; save x.resolve_conj().resolve_neg()";
            return Err(unsupported(NAME, reason));
        }
        let dtype = dtype(class).ok_or_else(|| {
            let advice = "which no tensor has; convert it first";
            unsupported(NAME, format!("its elements are {class}, {advice}"))
        })?;
        self.enter(16 * shape.len(), 0)?;
        let (begin, len) = match self.storages.get(key) {
            Some(&place) => place,
            None => {
                let member = self.members.get(&format!("data/{key}"))?.ok_or_else(damaged)?;
                let place = (member.data_start().ok_or_else(damaged)?, member.compressed_size());
                *self.storages.entry(key).or_insert(place)
            }
        };
        let itemsize = dtype.itemsize() as u64;
        let elements = span(&shape, &strides).ok_or_else(damaged)? as u64;
        let first = if elements == 0 { 0 } else { offset };
        if first.saturating_add(elements).saturating_mul(itemsize) > len {
            let of = format!("{elements} {dtype} from element {first} of a storage of {len} bytes");
            return Err(invalid(NAME, format!("tensor {name:?} has {of}")));
        }
        let is_packed = strides.iter().rev().eq(&packed(shape.iter().rev().copied()));
        let entry = Entry {
            is_swapped: self.is_swapped && itemsize > 1,
            strides: (!is_packed).then_some(strides),
            storage: Some(begin..begin + len),
            ..Entry::stored(dtype, shape, begin + first * itemsize)
        };
        entry.nbytes().map(|_| entry).ok_or_else(damaged)
    }

    /// Reads such arguments: the class of the storage or the dtype, the key, offset, shape, strides, and true if a bit is
    /// set that changes the elements. `None` if they are damaged.
    #[expect(clippy::type_complexity, reason = "it is read at one place")]
    fn view(
        &self,
        arguments: Id,
        has_dtype: bool,
    ) -> Option<(&'a str, &'a str, u64, Vec<usize>, Vec<isize>, bool)> {
        let (first, rest) = self.items(arguments)?.split_first_chunk()?;
        let &[storage, offset, shape, strides] = first;
        let Object::Storage(id) = self.object(storage) else { return None };
        let &[kind, class, key] = self.items(*id)?.first_chunk()?;
        // Behind the strides: requires_grad, hooks, the dtype if there is one, and the bits.
        let class = if has_dtype { *rest.get(2)? } else { class };
        let bits = rest.get(2 + usize::from(has_dtype)).map(|&bits| self.object(bits));
        let has_bits = matches!(bits, Some(Object::Dict(bits)) if !bits.is_empty());
        let Object::Value(Value::Text(kind)) = self.object(kind) else { return None };
        let Object::Value(Value::Text(key)) = self.object(key) else { return None };
        let Object::Global(class) = self.object(class) else { return None };
        let (shape, strides) = (self.numbers(shape)?, self.numbers(strides)?);
        let is_whole = kind == "storage" && shape.len() == strides.len();
        is_whole.then_some((class, key, self.number(offset)?, shape, strides, has_bits))
    }

    fn items(&self, id: Id) -> Option<&'a [Id]> {
        if let Object::Tuple(items) = self.object(id) { Some(items) } else { None }
    }

    /// A number that is not negative.
    fn number<T: TryFrom<i64>>(&self, id: Id) -> Option<T> {
        match self.object(id) {
            Object::Value(Value::Int(number @ 0..)) => T::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The numbers of a shape or of strides.
    fn numbers<T: TryFrom<i64>>(&self, id: Id) -> Option<Vec<T>> {
        let items = self.items(id).filter(|items| items.len() <= MAX_NDIM)?;
        items.iter().map(|&id| self.number(id)).collect()
    }
}

/// The storage classes of PyTorch and their dtypes, and the dtypes without one.
const STORAGES: &str = "Float float32, Double float64, Half float16, BFloat16 bfloat16, Long int64, Int int32, \
    Short int16, Char int8, Byte uint8, Bool bool, ComplexFloat complex64, ComplexDouble complex128";
const NEWER: &str = "complex32 uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz \
    float8_e8m0fnu float4_e2m1fn_x2";

/// The dtype of a storage class, or of PyTorch's name for it.
fn dtype(class: &str) -> Option<DataType> {
    let name = class.strip_prefix("torch.")?;
    let rows = || STORAGES.split(", ").filter_map(|row| row.split_once(' '));
    let name = match name.strip_suffix("Storage") {
        Some(storage) => rows().find(|(known, _)| *known == storage)?.1,
        None => rows().map(|row| row.1).chain(NEWER.split(' ')).find(|known| *known == name)?,
    };
    name.replace("_x2", "x2").parse().ok()
}

/// The members in the folder of an archive.
struct Members<'a, R> {
    archive: Zip<R>,
    len: u64,
    folder: &'a str,
}

impl<R: Read + Seek> Members<'_, R> {
    /// A member, which knows its first byte; `None` if the archive lacks it.
    fn get(&mut self, name: &str) -> Result<Option<ZipFile<'_, BufReader<R>>>, Fault> {
        let name = format!("{}{name}", self.folder);
        let number = self.archive.index_for_name_raw(name.as_bytes());
        let Some(number) = number else { return Ok(None) };
        let member = self.archive.by_index_raw(number);
        let member = member.map_err(|error| npz::fault(error, self.len, NAME))?;
        if member.encrypted() || member.compression() != CompressionMethod::STORE {
            let reason = format!(
                "its member {name:?} is compressed or encrypted; load it with torch.load, and save it again"
            );
            return Err(unsupported(NAME, reason));
        }
        let begin = member.data_start().unwrap_or(self.len);
        if begin.checked_add(member.compressed_size()).is_none_or(|end| end > self.len) {
            return Err(invalid(NAME, format!("its member {name:?} ends behind the file")));
        }
        Ok(Some(member))
    }

    /// All bytes of a member; none if the archive lacks it.
    fn read(&mut self, name: &str) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        if let Some(member) = self.get(name)? {
            member.take(MAX_HEADER).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }
}
