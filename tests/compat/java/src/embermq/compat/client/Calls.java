package embermq.compat.client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.ParserConfig;
import com.alibaba.fastjson.util.TypeUtils;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.Collection;
import java.util.Map;

/**
 * Calls a public method by name, with arguments from JSON: numbers, booleans, texts, names of enum values,
 * lists of them, and objects whose fields are the bean's. Of several methods the one that fits best is taken.
 */
final class Calls {
    static Object call(Object target, String name, JSONArray arguments) throws Exception {
        Method best = null;
        int bestFit = -1;
        for (Method method : target.getClass().getMethods()) {
            int fit = method.getName().equals(name) ? fit(method, arguments) : -1;
            if (fit > bestFit) {
                best = method;
                bestFit = fit;
            }
        }
        if (best == null) {
            throw new NoSuchMethodException(target.getClass().getSimpleName() + "." + name + arguments);
        }
        Object[] values = new Object[arguments.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = convert(arguments.get(i), best.getGenericParameterTypes()[i]);
        }
        try {
            best.setAccessible(true);
            return best.invoke(target, values);
        } catch (InvocationTargetException failure) {
            throw failure.getCause() instanceof Exception cause ? cause : failure;
        }
    }

    private static int fit(Method method, JSONArray arguments) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length != arguments.size()) {
            return -1;
        }
        int sum = 0;
        for (int i = 0; i < types.length; i++) {
            int fit = fit(types[i], arguments.get(i));
            if (fit < 0) {
                return -1;
            }
            sum += fit;
        }
        return sum;
    }

    private static int fit(Class<?> type, Object value) {
        if (value == null) {
            return type.isPrimitive() ? -1 : type == String.class ? 2 : 1;
        } else if (value instanceof String) {
            return type == String.class ? 3 : type.isEnum() ? 2 : -1;
        } else if (value instanceof Number) {
            return type == long.class || type == Long.class ? 3 : type == int.class || type == Integer.class ? 2 : -1;
        } else if (value instanceof Boolean) {
            return type == boolean.class || type == Boolean.class ? 3 : -1;
        } else if (value instanceof JSONArray) {
            return Collection.class.isAssignableFrom(type) ? 3 : -1;
        }
        boolean bean = !type.isPrimitive() && type != String.class && !type.isEnum() && !type.isInterface();
        return bean ? 3 : Map.class.isAssignableFrom(type) ? 2 : -1;
    }

    private static Object convert(Object value, Type type) {
        if (value instanceof String text && type instanceof Class<?> known && known.isEnum()) {
            for (Object constant : known.getEnumConstants()) {
                if (((Enum<?>) constant).name().equals(text)) {
                    return constant;
                }
            }
            throw new IllegalArgumentException(known.getSimpleName() + " has no " + text);
        }
        if (value instanceof JSONObject && type == java.util.Properties.class) {
            java.util.Properties properties = new java.util.Properties();
            ((JSONObject) value).forEach((key, each) -> properties.setProperty(key, String.valueOf(each)));
            return properties;
        }
        return TypeUtils.cast(value, type, ParserConfig.getGlobalInstance());
    }
}
