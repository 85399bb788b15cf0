/* Which level of x86-64 this processor and system can run: the index into LEVELS of library.py. */
int partwise_processor_level(void) {
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi")
          && __builtin_cpu_supports("bmi2")))
        return 0;
    if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd")
          && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")))
        return 1;
    return 2;
}
