// From an array of pointers to arguments, as a launch has it, to the call of a kernel; and the spelling of its parameters.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

namespace simt {

extern "C" void simt_register(const char* name, const char* signature, void (*call)(void* const*));

// A letter for each type of parameter, the same as in src/engine/gpu/sources.rs.
template <class T> constexpr char type_code() {
    using U = std::remove_cv_t<T>;
    if (std::is_pointer<U>::value) return std::is_const<std::remove_pointer_t<U>>::value ? 'r' : 'w';
    if (std::is_same<U, float>::value) return 'f';
    if (std::is_same<U, double>::value) return 'd';
    if (std::is_integral<U>::value && sizeof(U) == 4) return std::is_signed<U>::value ? 'i' : 'u';
    if (std::is_integral<U>::value && sizeof(U) == 8) return std::is_signed<U>::value ? 'l' : 'm';
    return '?';
}

template <class... A> struct Signature {
    static constexpr char text[] = {type_code<A>()..., '\0'};
};

template <class F, F f> struct Entry;

// Not watched: the arguments are the host's memory.
template <class... A, void (*f)(A...)> struct Entry<void (*)(A...), f> {
    static_assert(((type_code<A>() != '?') && ...), "no kernel parameter can have this type");
    static constexpr const char* signature = Signature<A...>::text;

    template <size_t... I>
    __attribute__((no_sanitize("thread"))) static void unpack(void* const* args, std::index_sequence<I...>) {
        f(*static_cast<std::remove_cv_t<A>*>(args[I])...);
    }
    __attribute__((no_sanitize("thread"))) static void call(void* const* args) {
        unpack(args, std::index_sequence_for<A...>{});
    }
};

// compile.rs writes one line of these for each kernel of a file.
#define SIMT_KERNEL(name)                                             \
    static const bool simt_registered_##name = [] {                   \
        using E = simt::Entry<decltype(&name), &name>;                \
        simt::simt_register(#name, E::signature, &E::call);           \
        return true;                                                  \
    }();

}  // namespace simt
