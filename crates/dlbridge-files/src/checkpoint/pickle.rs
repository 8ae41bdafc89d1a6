//! Reads a pickle as data: the objects in it, and the calls that would make others. Nothing is called.

use super::NAME;
use crate::formats::{invalid, unsupported};
use crate::{Fault, Value};

/// The largest number of objects. Those of 100 000 tensors are 1.3 million.
const MAX_OBJECTS: usize = 1 << 22;

/// The number of an object.
pub(super) type Id = u32;

/// An object of a pickle.
pub(super) enum Object {
    Value(Value),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<[Id; 2]>),
    /// A function or class, with its module.
    Global(String),
    /// The persistent id of a storage.
    Storage(Id),
    /// The arguments of a function that makes a tensor, and true if one of them is the dtype.
    Tensor(Id, bool),
    /// The result of an unknown function or class.
    Made(Id),
}

/// Reads a pickle, opcode by opcode.
pub(super) struct Reader<'a> {
    pickle: &'a [u8],
    at: usize,
    pub(super) objects: Vec<Object>,
    stack: Vec<Id>,
    /// The heights of the stack at its marks.
    marks: Vec<usize>,
    memo: Vec<Id>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(pickle: &'a [u8]) -> Self {
        Self { pickle, at: 0, objects: vec![], stack: vec![], marks: vec![], memo: vec![] }
    }

    /// Reads all objects, and returns the pickled one.
    pub(super) fn read(&mut self) -> Result<Id, Fault> {
        loop {
            let [opcode] = self.bytes()?;
            let object = match opcode {
                // PROTO, STOP, MARK.
                0x80 => match self.bytes()? {
                    [2] => continue,
                    [other] => {
                        let advice = "save it without pickle_protocol";
                        let reason = format!("its pickle has protocol {other}; {advice}");
                        return Err(unsupported(NAME, reason));
                    }
                },
                b'.' => return self.pop(),
                b'(' => {
                    self.marks.push(self.stack.len());
                    continue;
                }
                // NONE, NEWTRUE, NEWFALSE, BININT, BININT1, BININT2, LONG1, BINFLOAT, BINUNICODE, SHORT_BINSTRING.
                b'N' => Object::Value(Value::Null),
                0x88 | 0x89 => Object::Value(Value::Bool(opcode == 0x88)),
                b'J' => Object::Value(Value::Int(i32::from_le_bytes(self.bytes()?).into())),
                b'K' => Object::Value(Value::Int(self.number(false)? as i64)),
                b'M' => Object::Value(Value::Int(u16::from_le_bytes(self.bytes()?).into())),
                0x8a => match integer(self.counted(false)?) {
                    Some(integer) => Object::Value(integer),
                    None => Object::Global("an integer of more than 64 bits".into()),
                },
                b'G' => Object::Value(Value::Float(f64::from_be_bytes(self.bytes()?))),
                b'X' | b'U' => Object::Value(Value::Text(text(self.counted(opcode == b'X')?))),
                // EMPTY_LIST, EMPTY_DICT, EMPTY_TUPLE, TUPLE1 to TUPLE3, TUPLE.
                b']' => Object::List(vec![]),
                b'}' => Object::Dict(vec![]),
                b')' => Object::Tuple(vec![]),
                0x85..=0x87 => Object::Tuple(self.pop_last(usize::from(opcode - 0x84))?),
                b't' => Object::Tuple(self.pop_marked()?),
                // APPEND, APPENDS, SETITEM, SETITEMS, BUILD. Those of an unknown call are not asked for.
                b'a' | b'e' | b's' | b'u' | b'b' => {
                    let items = match opcode {
                        b'e' | b'u' => self.pop_marked()?,
                        _ => self.pop_last(if opcode == b's' { 2 } else { 1 })?,
                    };
                    let top = self.stack[self.last(1)?] as usize;
                    match (opcode, &mut self.objects[top], items.as_chunks()) {
                        (b'a' | b'e', Object::List(list), _) => list.extend(items),
                        (b's' | b'u', Object::Dict(dict), (pairs, [])) => dict.extend(pairs),
                        (b'b', Object::Dict(_) | Object::Tensor(..), _)
                        | (_, Object::Made(_), _) => {}
                        _ => return Err(self.damaged()),
                    }
                    continue;
                }
                // BINPUT, LONG_BINPUT. Python numbers the places in ascending order.
                b'q' | b'r' => {
                    let (place, top) = (self.number(opcode == b'r')?, self.last(1)?);
                    if place > self.memo.len() {
                        return Err(self.damaged());
                    }
                    self.memo.splice(place..self.memo.len().min(place + 1), [self.stack[top]]);
                    continue;
                }
                // BINGET, LONG_BINGET.
                b'h' | b'j' => {
                    let place = self.number(opcode == b'j')?;
                    self.stack.push(*self.memo.get(place).ok_or_else(|| self.damaged())?);
                    continue;
                }
                // GLOBAL, REDUCE, NEWOBJ, BINPERSID.
                b'c' => Object::Global(format!("{}.{}", self.line()?, self.line()?)),
                b'R' | 0x81 => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    match self.called(function, arguments) {
                        Ok(object) => object,
                        Err(inner) => {
                            self.stack.push(inner);
                            continue;
                        }
                    }
                }
                b'Q' => Object::Storage(self.pop()?),
                _ => return Err(self.damaged()),
            };
            if self.objects.len() == MAX_OBJECTS {
                let reason = format!("its pickle has more than {MAX_OBJECTS} objects");
                return Err(unsupported(NAME, reason));
            }
            self.stack.push(self.objects.len() as Id);
            self.objects.push(object);
        }
    }

    /// The fault of the bytes that were just read.
    fn damaged(&self) -> Fault {
        let at = self.at;
        let reason =
            format!("its pickle is damaged, or not that of a state dict, before byte {at}");
        invalid(NAME, reason)
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let slice = self.pickle[self.at..].get(..len).ok_or_else(|| self.damaged())?;
        self.at += len;
        Ok(slice)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        Ok(self.slice(N)?.try_into().expect("as many bytes"))
    }

    /// A number of four bytes, or one.
    fn number(&mut self, is_long: bool) -> Result<usize, Fault> {
        let bytes = self.slice(if is_long { 4 } else { 1 })?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }

    /// Bytes behind their number.
    fn counted(&mut self, is_long: bool) -> Result<&'a [u8], Fault> {
        let len = self.number(is_long)?;
        self.slice(len)
    }

    fn line(&mut self) -> Result<String, Fault> {
        let len = self.pickle[self.at..].iter().position(|&byte| byte == b'\n');
        let line = self.slice(len.ok_or_else(|| self.damaged())? + 1)?;
        Ok(text(line.trim_ascii_end()))
    }

    /// The place in the stack of the last `count` objects above its last mark.
    fn last(&self, count: usize) -> Result<usize, Fault> {
        let first = self.stack.len().checked_sub(count);
        let mark = self.marks.last().copied().unwrap_or(0);
        first.filter(|&first| first >= mark).ok_or_else(|| self.damaged())
    }

    fn pop_last(&mut self, count: usize) -> Result<Vec<Id>, Fault> {
        self.last(count).map(|first| self.stack.split_off(first))
    }

    fn pop(&mut self) -> Result<Id, Fault> {
        self.last(1).map(|last| self.stack.swap_remove(last))
    }

    fn pop_marked(&mut self) -> Result<Vec<Id>, Fault> {
        let mark = self.marks.pop().ok_or_else(|| self.damaged())?;
        Ok(self.stack.split_off(mark))
    }

    /// The result of a call: an object, or the one that it only wraps.
    fn called(&self, mut function: Id, mut arguments: Id) -> Result<Object, Id> {
        let global = |id: Id| match &self.objects[id as usize] {
            Object::Global(name) => name,
            _ => "",
        };
        let items = |id: Id| match &self.objects[id as usize] {
            Object::Tuple(items) => &items[..],
            _ => &[],
        };
        // A subclass can give the elements another meaning, as those of distributed tensors do.
        if global(function) == "torch._tensor._rebuild_from_type_v2"
            && let &[inner, class, of_inner, _] = items(arguments)
        {
            (function, arguments) = match global(class) {
                "torch.Tensor" | "torch.nn.parameter.Parameter" | "torch.nn.parameter.Buffer" => {
                    (inner, of_inner)
                }
                _ => (class, arguments),
            };
        }
        let (module, name) = global(function).rsplit_once('.').unwrap_or_default();
        match (module, name, items(arguments)) {
            // Its entries follow.
            ("collections", "OrderedDict", []) => Ok(Object::Dict(vec![])),
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2", _) => {
                Ok(Object::Tensor(arguments, false))
            }
            ("torch._utils", "_rebuild_tensor_v3", _) => Ok(Object::Tensor(arguments, true)),
            (
                "torch._utils",
                "_rebuild_parameter" | "_rebuild_parameter_with_state",
                &[inner, ..],
            )
            | ("torch", "Size" | "device", &[inner])
            | ("collections", "Counter", &[inner])
            | ("__builtin__", "set", &[inner]) => Err(inner),
            ("torch", "device", [_, _]) => Err(arguments),
            _ => Ok(Object::Made(function)),
        }
    }
}

/// Text in UTF-8, which may have surrogates.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An integer of little-endian bytes, if it has no more than 64 bits.
fn integer(bytes: &[u8]) -> Option<Value> {
    let is_negative = bytes.last().is_some_and(|&last| last >= 0x80);
    let mut wide = [if is_negative { 0xff } else { 0 }; 16];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let number = i128::from_le_bytes(wide);
    number.try_into().map(Value::Int).or_else(|_| number.try_into().map(Value::Uint)).ok()
}
